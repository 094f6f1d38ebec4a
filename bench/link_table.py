#!/usr/bin/python3
"""Seconds per step in modes sync and allreduce over links of a limited rate, next to a formula's prediction.

usage: link_table.py --bin build/release/bin [--only TEXT] [--quick] [--links LIST] [--output FILE]

Each process of a job has its own network namespace and sends and receives at most the link's rate (tbf). The script
needs root, and the programs ip and tc; without them it exits with 77. All processes share this machine's
cores. Predictions use the rate of a plain socket over the same link in the same run.
"""
import argparse
import collections
import contextlib
import json
import math
import os
import platform
import selectors
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import link_network

MIB = 1 << 20
CLASSES = 10
# For a size of all gradients in MiB, a model of about that size: (inputs, widths of the hidden layers).
MODELS = {1: (256, [512, 248]), 8: (1024, [1024, 1000]), 64: (4096, [2048, 2048, 2030])}
# (workers, servers). By the formula, mode sync is faster than allreduce from three workers and as many servers on.
JOBS = [(2, 1), (2, 2), (4, 1), (4, 2), (4, 4)]
LINKS = "unlimited,10gbit,1gbit,0.1gbit"
QUICK = ("unlimited,1gbit", ["1gbit/8mib/2w1s"])
TIE = 0.02  # relative difference below which times count as equal
NO_SUPPORT = 77

JOB = """\
[job]
name = "link"
mode = "{mode}"
steps = {steps}
global_batch = {batch}
slots = {workers}
[model]
kind = "mlp"
hidden = {hidden}
[data]
kind = "synthetic"
samples = 256
features = {features}
classes = {classes}
[optimizer]
kind = "sgd"
lr = 0.001
[cluster]
servers = {servers}
workers = {workers}
coordinator = "{coordinator}"
[worker]
threads = 1
[limits]
lease = 60
[snapshot]
every_seconds = 0
"""

Point = collections.namedtuple("Point", "link mib workers servers")

# ---------------------------------------------------------------------------------------------------------- the formula


def check(**values):
    for name, value in values.items():
        if not value > 0 or math.isinf(value):
            raise ValueError(f"{name} is to be a positive number, not {value}")


def ring_seconds(workers, size, bandwidth):
    """Returns the seconds of an all-reduce of `size` bytes in a ring with `bandwidth` bytes per second in each direction."""
    check(workers=workers, size=size, bandwidth=bandwidth)
    return 2 * (workers - 1) / workers * size / bandwidth


def servers_seconds(workers, servers, size, worker_bandwidth, server_bandwidth, overlapped=True):
    """Returns the seconds in which every worker pushes and pulls `size` bytes. `overlapped`: both at the same time."""
    check(workers=workers, servers=servers, size=size, worker_bandwidth=worker_bandwidth, server_bandwidth=server_bandwidth)
    one_way = max(size / worker_bandwidth, workers * size / (servers * server_bandwidth))
    return one_way if overlapped else 2 * one_way


def servers_to_match(workers, worker_bandwidth=1.0, server_bandwidth=1.0):
    """Returns the (fractional) number of servers with which push and pull, overlapped, take as long as the ring."""
    check(workers=workers - 1, worker_bandwidth=worker_bandwidth, server_bandwidth=server_bandwidth)
    return workers ** 2 / (2 * (workers - 1)) * worker_bandwidth / server_bandwidth


def faster(sync, allreduce):
    if abs(sync - allreduce) <= TIE * min(sync, allreduce):
        return "equal"
    return "sync" if sync < allreduce else "allreduce"


# --------------------------------------------------------------------------------------------------------------- points


def parse_link(word):
    """Returns the bits per second of a word such as "0.1gbit" or "100mbit"; None for "unlimited"."""
    if word == "unlimited":
        return None
    for unit, factor in ("gbit", 1e9), ("mbit", 1e6):
        if word.endswith(unit):
            try:
                bits = float(word[:-len(unit)]) * factor
            except ValueError:
                break
            if 1e6 <= bits <= 1e12:
                return bits
    raise ValueError(f'link "{word}": write unlimited, or a rate from 1mbit to 1000gbit as 0.1gbit')


def name_of(point):
    return f"{point.link}/{point.mib}mib/{point.workers}w{point.servers}s"


def choose(links, only):
    """Returns the points on these links whose name contains `only` or, if that is a list, is in the list."""
    points = [Point(link, mib, *job) for link in links for mib in MODELS for job in JOBS]
    wanted = (lambda name: name in only) if isinstance(only, list) else (lambda name: only in name)
    found = [point for point in points if wanted(name_of(point))]
    if not found:
        raise ValueError(f'--only "{only}": none of {name_of(points[0])} to {name_of(points[-1])} has this in its name')
    return found


def gradient_bytes(mib):
    features, hidden = MODELS[mib]
    widths = [features, *hidden, CLASSES]
    return 4 * sum((inputs + 1) * outputs for inputs, outputs in zip(widths, widths[1:]))


def predictions(point, bits):
    """Returns the seconds that the formulas predict for a step if a link carries `bits` per second."""
    size, rate = gradient_bytes(point.mib), bits / 8
    servers = [point.workers, point.servers, size, rate, rate]
    return {"sync": servers_seconds(*servers), "sync_in_phases": servers_seconds(*servers, overlapped=False),
            "allreduce": ring_seconds(point.workers, size, rate)}


def step_counts(expected):
    """Returns (steps to warm up, steps to measure) for a job whose step takes about `expected` seconds."""
    return (2 if expected < 4 else 1), min(15, max(1, math.ceil(2 / expected)))


def median_step(lines, warm, steps):
    """Returns the median seconds of `steps` steps after the first `warm` ones. Fails if the job has repeated steps."""
    records = [json.loads(line) for line in lines]
    if any(record["generation"] != records[0]["generation"] for record in records):
        raise RuntimeError("steps were replayed: a process was lost on the way, so its times mean nothing")
    seconds = [record["seconds"] for record in records[warm:warm + steps]]
    if len(seconds) < steps:
        raise RuntimeError(f"{len(records)} steps are too few to measure {steps} after {warm}")
    return statistics.median(seconds)


# ----------------------------------------------------------------------------------------------------------------- jobs


def say(line):
    print(line, file=sys.stderr, flush=True)


class Jobs:
    """Runs jobs, starts each binary in its member's namespace, and keeps the results of past runs."""

    def __init__(self, network, binaries, folder):
        self.network, self.binaries, self.folder = network, binaries, folder
        self.port, self.started = 7000, 0
        self.known, self.sent = {}, {}

    def measure(self, point, mode, expected):
        """Returns (median seconds of a step, number of steps). Measures a job only once; in mode allreduce, points that differ
        only in servers are one job."""
        point = self._job_of(point, mode)
        if (point, mode) not in self.known:
            self.known[point, mode] = self._run(point, mode, expected)
        return self.known[point, mode]

    def sent_bytes(self, point, mode):
        """Returns the bytes that worker 0 sent per step of a measured job, averaged over all steps."""
        return self.sent[self._job_of(point, mode), mode]

    @staticmethod
    def _job_of(point, mode):
        return point._replace(servers=1) if mode == "allreduce" else point

    def _run(self, point, mode, expected):
        self.port += 1
        warm, steps = step_counts(expected)
        total = warm + steps + (mode == "allreduce")  # allreduce's last step also uploads the weights to the servers
        run = os.path.join(self.folder, f"run-{self.port}")
        coordinator = f"{self.network.address('c')}:{self.port}"
        job = os.path.join(self.folder, f"job-{self.port}.toml")
        with open(job, "w", encoding="utf-8") as file:
            file.write(self._job_file(point, mode, total, coordinator))
        before = self.network.sent("w0")
        self._wait(self._commands(point, job, run, coordinator), 60 + 10 * expected * (total + 1))
        self.sent[point, mode] = (self.network.sent("w0") - before) // total
        with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as file:
            seconds = median_step(file, warm, steps)
        say(f"{name_of(point)} {mode}: {seconds * 1e3:.1f} ms, median of {steps}")
        return seconds, steps

    def _job_file(self, point, mode, steps, coordinator):
        features, hidden = MODELS[point.mib]
        return JOB.format(mode=mode, steps=steps, batch=2 * point.workers, workers=point.workers, servers=point.servers,
                          hidden=hidden, features=features, classes=CLASSES, coordinator=coordinator)

    def _commands(self, point, job, run, coordinator):
        """Yields (member, program, arguments...) for each process."""
        address = self.network.address
        yield "c", "capstan-server", job, "--coordinator", "--allow-plaintext", "--run-dir", run
        for index in range(point.servers):
            listen = f"cluster.listen={address(f's{index}')}:{self.port}"
            yield f"s{index}", "capstan-server", job, "--index", str(index), "--allow-plaintext", "--run-dir", run, "--set", listen
        for index in range(point.workers):
            place = self._place_of_worker(index)
            words = ["--coordinator", coordinator, "--allow-plaintext", "--address", address(place), "--name", f"w{index}"]
            yield place, "capstan-worker", *words

    def _place_of_worker(self, index):
        return f"w{index}"

    def _wait(self, commands, patience):
        """Runs these commands and waits until all have ended with success. Leaves none running."""
        deadline = time.monotonic() + patience
        running = {}  # file descriptor -> child
        with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
            for member, program, *words in commands:
                child = self._start(member, program, *words)
                stack.callback(child.wait)
                stack.callback(child.kill)
                running[os.pidfd_open(child.pid)] = child
            for descriptor in running:
                stack.callback(os.close, descriptor)
                selector.register(descriptor, selectors.EVENT_READ)
            while running:
                ended = selector.select(max(0.0, deadline - time.monotonic()))
                if not ended:
                    raise self._failure(next(iter(running.values())), f"it has not ended within {patience:.0f} s")
                for key, _ in ended:
                    selector.unregister(key.fd)
                    child = running.pop(key.fd)
                    if child.wait() != 0:
                        raise self._failure(child, f"exit {child.returncode}")

    def _start(self, member, program, *words):
        command = self.network.command(member, os.path.join(self.binaries, program), *words)
        self.started += 1
        name = os.path.join(self.folder, f"log-{self.port}-{member}-{self.started}")
        with open(name, "w", encoding="utf-8") as log:
            child = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log,
                                     stderr=subprocess.STDOUT, start_new_session=True)
        child.log = name
        return child

    def _failure(self, child, what):
        with open(child.log, encoding="utf-8", errors="replace") as file:
            said = "".join(file.readlines()[-12:])
        return RuntimeError(f"{' '.join(child.args)}: {what}; its last lines:\n{said}")


# ---------------------------------------------------------------------------------------------------------------- table


def row_of(point, bits, steps, unlimited):
    """Returns a row of the table. `steps` and `unlimited`: (seconds, number of steps) by mode."""
    row = {"name": name_of(point), "link": point.link, "measured_gbit": round(bits / 1e9, 4), "mib": point.mib,
           "bytes": gradient_bytes(point.mib), "workers": point.workers, "servers": point.servers}
    predicted = predictions(point, bits)
    for mode in "sync", "allreduce":
        seconds, count = steps[mode]
        row[mode] = {"ms": round(seconds * 1e3, 3), "steps": count, "formula_ms": round(predicted[mode] * 1e3, 3),
                     "ratio": round(seconds / predicted[mode], 3), "unlimited_ms": round(unlimited[mode][0] * 1e3, 3)}
    row["sync"]["formula_in_phases_ms"] = round(predicted["sync_in_phases"] * 1e3, 3)
    row["faster_by_formula"] = faster(predicted["sync"], predicted["allreduce"])
    row["faster_measured"] = faster(steps["sync"][0], steps["allreduce"][0])
    return row


HEAD = ("link", "Gb/s", "MiB", "P", "S", "sync ms", "formula", "in phases", "ratio", "no limit", "allreduce ms", "formula",
        "ratio", "no limit", "by formula", "measured")
WIDTHS = (9, 7, 4, 2, 2, 9, 9, 9, 7, 9, 12, 9, 7, 9, 10, 10)


def columns(row):
    cells = [row["link"], f"{row['measured_gbit']:.3g}", row["mib"], row["workers"], row["servers"]]
    for mode, formulas in ("sync", ["formula_ms", "formula_in_phases_ms"]), ("allreduce", ["formula_ms"]):
        cells += [f"{row[mode][key]:.1f}" for key in ("ms", *formulas)]
        cells += [f"{row[mode]['ratio']:.2f}", f"{row[mode]['unlimited_ms']:.1f}"]
    return line_of(cells + [row["faster_by_formula"], row["faster_measured"]])


def line_of(cells):
    return "  ".join(str(cell).rjust(width) for cell, width in zip(cells, WIDTHS)).rstrip()


def machine():
    with open("/proc/sys/net/ipv4/tcp_congestion_control", encoding="ascii") as file:
        congestion = file.read().strip()
    return {"cores": len(os.sched_getaffinity(0)), "load_before": os.getloadavg()[0], "kernel": platform.release(),
            "congestion_control": congestion}


def one_point_per_line(facts, rows):
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    head = json.dumps(facts, indent=1).removesuffix("\n}")
    return f'{head},\n "points": [\n{lines}\n ]\n}}\n'


def save(path, rows, facts):
    if path:
        with open(path, "w", encoding="utf-8") as file:
            file.write(one_point_per_line(facts, rows))


def measure_link(points, bits, network, jobs, unlimited):
    """Sets the limit of the links, and yields one row for each point. All points are of this one link."""
    network.limit(bits)
    rate = statistics.median(network.measured("w0", "s0") for _ in range(3))
    say(f"{points[0].link}: a plain socket carries {rate / 1e9:.4g} Gb/s")
    if bits is not None and rate > 1.05 * bits:
        raise RuntimeError(f"{points[0].link}: a plain socket carries {rate / 1e9:.4g} Gb/s: the limit does not hold")
    for point in points:
        predicted, steps, free = predictions(point, rate), {}, {}
        for mode in "sync", "allreduce":
            free[mode] = unlimited(point, mode)
            expected = free[mode][0] + (1.3 * predicted[mode] if bits is not None else 0)
            steps[mode] = free[mode] if bits is None else jobs.measure(point, mode, expected)
        row = row_of(point, rate, steps, free)
        for mode in steps:
            row[mode]["sent_bytes"] = jobs.sent_bytes(point, mode)
        yield row


def measure_all(arguments, points, facts):
    rows = []
    links = dict.fromkeys(point.link for point in points)
    members = ["c"] + [f"s{i}" for i in range(max(p.servers for p in points))]
    members += [f"w{i}" for i in range(max(p.workers for p in points))]
    with tempfile.TemporaryDirectory(prefix="capstan-link-") as folder, link_network.Network(members) as network:
        jobs = Jobs(network, os.path.abspath(arguments.bin), folder)

        def unlimited(point, mode):
            return jobs.measure(point._replace(link="unlimited"), mode, 0.02 + 0.004 * point.mib * point.workers)

        for point in points:  # these come first, while no link has a limit
            for mode in "sync", "allreduce":
                unlimited(point, mode)
        for link in links:
            for row in measure_link([p for p in points if p.link == link], parse_link(link), network, jobs, unlimited):
                rows.append(row)
                say(columns(row))
                save(arguments.output, rows, facts)
    return rows


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", required=True, help="folder of the binaries")
    parser.add_argument("--only", default="", metavar="TEXT", help="points with this in their name, as 1gbit/8mib/4w")
    parser.add_argument("--quick", action="store_true", help=f"only {', '.join(QUICK[1])}")
    parser.add_argument("--links", default=LINKS, help="rates, as %(default)s")
    parser.add_argument("--output", metavar="FILE", help="JSON, written again after each point")
    arguments = parser.parse_args(words)
    links, only = QUICK if arguments.quick else (arguments.links, arguments.only)
    try:
        for link in links.split(","):
            parse_link(link)
        return arguments, choose(links.split(","), only)
    except ValueError as error:
        return parser.error(str(error))


def main():
    arguments, points = parse(sys.argv[1:])
    reason = link_network.missing()
    if reason:
        say(f"link_table.py: {reason}")
        return NO_SUPPORT
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    facts = {"command": shlex.join(sys.argv), "machine": machine(),
             "note": "all processes share this machine's cores; formulas take the measured rate of a link"}
    save(arguments.output, [], facts)  # so that a wrong path fails before anything is measured
    try:
        rows = measure_all(arguments, points, facts)
    except KeyboardInterrupt:
        say("link_table.py: interrupted; nothing is left running")
        return 128 + signal.SIGINT
    except RuntimeError as error:
        say(f"link_table.py: {error}")
        return 1
    print(line_of(HEAD))
    for row in rows:
        print(columns(row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
