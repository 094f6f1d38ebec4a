#!/usr/bin/python3
"""Bytes per second of collective calls, whose bytes meet at the coordinator, next to a copy in memory.

usage: team_bench.py --bin build/release/bin [--ranks 2] [--mebibytes 32] [--calls 10]      needs numpy
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

JOB = """\
[job]
name = "team"
steps = 1
global_batch = {ranks}
slots = {ranks}
[model]
kind = "client"
[optimizer]
kind = "sgd"
lr = 0.1
[cluster]
servers = 1
workers = {ranks}
"""


def member(mebibytes, calls):
    """One of the processes; rank 0 prints the figures."""
    import capstan
    import numpy as np

    rank = int(os.environ["CAPSTAN_INDEX"])
    with capstan.connect() as client:
        client.declare([capstan.Tensor("none", (1,))])
        values = np.full(mebibytes << 18, rank + 1, "f")
        client.all_reduce(values, "max")
        seconds = []
        for _ in range(calls):
            began = time.perf_counter()
            client.all_reduce(values, "mean")
            seconds.append(time.perf_counter() - began)
        small = np.zeros(1, "f")
        began = time.perf_counter()
        for _ in range(100):
            client.all_reduce(small)
        latency = (time.perf_counter() - began) / 100
        began = time.perf_counter()
        copy = values.copy()
        copied = copy.nbytes / (time.perf_counter() - began)
        if rank == 0:
            rate = values.nbytes / sorted(seconds)[len(seconds) // 2]
            print("figures " + json.dumps({"all_reduce_gb_per_s": round(rate / 1e9, 3), "of_a_copy": round(rate / copied, 3),
                                           "latency_ms": round(1e3 * latency, 3)}), flush=True)
        for work in client.work():
            for slot in work.slots:
                slot.skip()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", required=True, help="folder of the binaries")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--mebibytes", type=int, default=32)
    parser.add_argument("--calls", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        job = os.path.join(folder, "job.toml")
        with open(job, "w", encoding="utf-8") as file:
            file.write(JOB.format(ranks=given.ranks))
        run = os.path.join(folder, "run")
        subprocess.run([os.path.join(given.bin, "capstan"), "launch", job, "--run-dir", run, "--", sys.executable, "-B",
                        os.path.abspath(__file__), "member", str(given.mebibytes), str(given.calls)], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(os.path.join(run, "logs", "worker-0.log"), encoding="utf-8") as file:
            figures = next(line for line in file if "figures " in line).split("figures ", 1)[1]
    print(json.dumps({"ranks": given.ranks, "mebibytes": given.mebibytes, **json.loads(figures)}))


if __name__ == "__main__":
    if sys.argv[1:2] == ["member"]:
        member(int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
