#!/usr/bin/python3
"""The final weights of a synchronous job are the same bytes for any number of workers, shards and threads.

Runs one job many times through `capstan launch` and compares the sha256 of final.safetensors. The job has 5 slots, a
global batch that they do not divide, two micro-batches a slot, dropout, tensors of several blocks, an epoch with a ragged
end, and a clip norm that is exceeded in some steps and not in others (both are checked).

usage: same_bits_test.py --bin FOLDER
"""
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

JOB = """
[job]
name = "same-bits"
mode = "sync"
steps = 14
seed = 7
global_batch = 33
slots = 5
eval_every = 4

[model]
kind = "mlp"
hidden = [700, 600]
dropout = 0.2

[data]
kind = "synthetic"
samples = 200
features = 500
classes = 10

[optimizer]
kind = "adamw"
lr = 0.002
clip_norm = CLIP

[schedule]
kind = "cosine"
warmup_steps = 3

[cluster]
servers = 1
workers = 1

[worker]
accumulate = 2

[limits]
lease = 1.5
stall = 60
"""


def launch(bin_dir, job, run_dir, settings, pauses=0, seed=0):
    command = [os.path.join(bin_dir, "capstan"), "launch", job, "--run-dir", run_dir]
    for setting in settings:
        command += ["--set", setting]
    with open(os.path.join(os.path.dirname(run_dir), os.path.basename(run_dir) + ".out"), "w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
        rng = random.Random(seed)
        while pauses > 0 and process.poll() is None:
            pauses -= pause_a_worker(run_dir, rng, process)
        code = process.wait(timeout=120)
    if code != 0:
        with open(out.name) as text:
            sys.exit(f"launch {settings} ended with {code}:\n{text.read()[-4000:]}")
    with open(os.path.join(run_dir, "final.safetensors"), "rb") as final:
        return hashlib.sha256(final.read()).hexdigest()


def pause_a_worker(run_dir, rng, process):
    """Stops a worker for longer than its lease, once the job commits steps: its slots must move. 1 when it did."""
    pids = os.path.join(run_dir, "pids")
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        workers = [n for n in (os.listdir(pids) if os.path.isdir(pids) else []) if n.startswith("worker-")]
        if workers and steps_of(run_dir):
            break
        time.sleep(0.02)  # polls for a file that another process writes
    else:
        return 1
    with open(os.path.join(pids, rng.choice(workers))) as pid_file:
        pid = int(pid_file.read())
    try:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(2.2)  # longer than the lease: that is the test
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass
    return 1


def steps_of(run_dir):
    path = os.path.join(run_dir, "metrics.jsonl")
    if not os.path.exists(path):
        return []
    with open(path) as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


def main():
    bin_dir = sys.argv[2]
    with tempfile.TemporaryDirectory(prefix="same-bits-") as folder:
        job = os.path.join(folder, "job.toml")
        # The clip norm that half of the steps exceed is found by a run without clipping.
        with open(job, "w") as out:
            out.write(JOB.replace("CLIP", "0.0"))
        launch(bin_dir, job, os.path.join(folder, "probe"), [])
        norms = sorted(step["grad_norm"] for step in steps_of(os.path.join(folder, "probe")))
        clip = norms[len(norms) // 2]
        with open(job, "w") as out:
            out.write(JOB.replace("CLIP", repr(clip)))

        cases = [("reference", [], 0), ("again", [], 0)]
        cases += [(f"{n} workers", [f"cluster.workers={n}"], 0) for n in (2, 3, 5)]
        cases += [(f"{n} shards", [f"cluster.servers={n}", "cluster.workers=2"], 0) for n in (3, 12)]
        cases += [("2 servers of 2 shards", ["cluster.servers=2", "cluster.shards_per_server=2"], 0)]
        cases += [("2 threads", ["worker.threads=2"], 0)]
        cases += [("paused workers", ["cluster.workers=3", "cluster.servers=2", "job.name=\"same-bits\""], 2)]
        digests = {}
        for index, (name, settings, pauses) in enumerate(cases):
            run_dir = os.path.join(folder, f"run-{index}")
            digests[name] = launch(bin_dir, job, run_dir, settings, pauses, seed=index)
            steps = steps_of(run_dir)
            print(f"{name:24} {digests[name][:16]}  loss {steps[0]['loss']:.4f} -> {steps[-1]['loss']:.4f}", flush=True)
            clipped = sum(step["grad_norm"] > clip for step in steps)
            if not 0 < clipped < len(steps):
                sys.exit(f"{name}: clipping was active in {clipped} of {len(steps)} steps: it must be in some, not all")
            if len(steps) != 14:
                sys.exit(f"{name}: {len(steps)} lines in metrics.jsonl, not 14")
        different = [name for name, digest in digests.items() if digest != digests["reference"]]
        if different:
            sys.exit(f"other bits than the reference: {', '.join(different)}")
    print(f"{len(cases)} runs, one sha256")


if __name__ == "__main__":
    main()
