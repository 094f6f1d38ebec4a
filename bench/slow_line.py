#!/usr/bin/python3
"""A job's traffic and step time over slow lines, next to the bytes it needs and the time the line needs for them.

usage: slow_line.py --bin build/release/bin [--rates LIST] [--steps N] [--crowd N] [--output FILE]

A worker and a server, each in its own network namespace, on a line of each rate in MiB per second (tbf). A step needs
to send the gradient up once and the weights down once; the line's time for them is that of a plain socket over
the same line in the same run. --crowd N: N workers and one server of 1 Gb/s instead, whose line limits all of them.
Needs root, and the programs ip and tc; without them it exits with 77. Exits with 1 if a ratio is above
its limit of 1.3.
"""
import argparse
import json
import os
import shlex
import statistics
import sys
import tempfile

import link_network
import link_table

MIB = 1 << 20
LIMIT = 1.3
CROWD_BITS = 1e9


class SlowJobs(link_table.Jobs):
    """Jobs with a given number of steps. Counts all bytes of the network devices of the server and the first worker."""

    def run(self, point, steps, patience):
        """Runs a job. Returns (median seconds of the steps after the first, bytes that the first worker sent, bytes that the
        server sent)."""
        self.port += 1
        run = os.path.join(self.folder, f"run-{self.port}")
        coordinator = f"{self.network.address('c')}:{self.port}"
        job = os.path.join(self.folder, f"job-{self.port}.toml")
        with open(job, "w", encoding="utf-8") as file:
            file.write(self._job_file(point, "sync", steps, coordinator))
        before = [self.network.sent(member) for member in ("w0", "s0")]
        self._wait(self._commands(point, job, run, coordinator), patience)
        sent = [self.network.sent(member) - was for member, was in zip(("w0", "s0"), before)]
        with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as file:
            seconds = [json.loads(line)["seconds"] for line in file]
        return statistics.median(seconds[1:]), *sent


def row_of(point, rate, steps, seconds, up, down):
    """Returns a row of the table. `rate`: bytes per second of a plain socket; in a crowd, on the server's line, which all
    workers share."""
    size = link_table.gradient_bytes(point.mib)
    # A worker pulls a version for each step, and the last one. That is also read once for the final weights.
    needed = {"up": size * steps, "down": size * (point.workers * (steps + 1) + 1)}
    line = point.workers * size / rate  # seconds in one direction; the other direction has a line of its own
    return {"line": point.link, "measured_mib_per_s": round(rate / MIB, 4), "workers": point.workers, "steps": steps,
            "bytes": size, "up_ratio": round(up / needed["up"], 3), "down_ratio": round(down / needed["down"], 3),
            "step_s": round(seconds, 3), "line_s": round(2 * line, 3), "step_ratio": round(seconds / (2 * line), 3)}


HEAD = ("line", "MiB/s", "workers", "steps", "sent up", "sent down", "step s", "line s", "ratio")


def columns(row):
    cells = (row["line"], row["measured_mib_per_s"], row["workers"], row["steps"], row["up_ratio"], row["down_ratio"],
             row["step_s"], row["line_s"], row["step_ratio"])
    return "  ".join(str(cell).rjust(9) for cell in cells)


def measure(arguments, workers, mib, lines):
    point = link_table.Point("", mib, workers, 1)
    with tempfile.TemporaryDirectory(prefix="capstan-slow-") as folder:
        with link_network.Network(["c", "s0", *(f"w{i}" for i in range(workers))]) as network:
            jobs = SlowJobs(network, os.path.abspath(arguments.bin), folder)
            for name, bits in lines:
                network.limit(bits)
                rate = network.measured("w0", "s0", max(1.0, 4 * MIB * 8 / bits)) / 8
                expected = 2 * workers * link_table.gradient_bytes(mib) / rate
                patience = 120 + arguments.patience * expected * (arguments.steps + 2)
                seconds, up, down = jobs.run(point, arguments.steps, patience)
                yield row_of(point._replace(link=name), rate, arguments.steps, seconds, up, down)


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the binaries")
    parser.add_argument("--rates", default="0.25,1,10", help="MiB per second, as %(default)s")
    parser.add_argument("--mib", type=int, choices=sorted(link_table.MODELS), help="of the gradient; 8, in a crowd 1")
    parser.add_argument("--steps", type=int, default=3, help="of each job, at least 2 (%(default)s)")
    parser.add_argument("--crowd", type=int, default=0, metavar="N", help="N workers behind a server of 1 Gb/s")
    parser.add_argument("--patience", type=float, default=4.0, help="times the line's time, until a job is given up")
    parser.add_argument("--output", metavar="FILE", help="JSON, written again after each line")
    return parser.parse_args(words)


def main():
    arguments = parse(sys.argv[1:])
    reason = link_network.missing()
    if reason:
        link_table.say(f"slow_line.py: {reason}")
        return link_table.NO_SUPPORT
    if arguments.crowd:
        lines, workers, mib = [("1gbit", CROWD_BITS)], arguments.crowd, arguments.mib or 1
    else:
        lines = [(f"{rate}MiB/s", float(rate) * MIB * 8) for rate in arguments.rates.split(",")]
        workers, mib = 1, arguments.mib or 8
    facts = {"command": shlex.join(sys.argv), "machine": link_table.machine()}
    rows = []
    print("  ".join(cell.rjust(9) for cell in HEAD))
    try:
        for row in measure(arguments, workers, mib, lines):
            rows.append(row)
            print(columns(row), flush=True)
            link_table.save(arguments.output, rows, facts)
    except RuntimeError as error:
        link_table.say(f"slow_line.py: {error}")
        return 1
    return int(any(row[ratio] > LIMIT for row in rows for ratio in ("up_ratio", "down_ratio", "step_ratio")))


if __name__ == "__main__":
    sys.exit(main())
