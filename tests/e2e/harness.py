"""Shared by the tests of whole jobs: job files, processes with deadlines, and a check for processes left running."""
import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import still_there

# By how much limits are longer on slow machines, and for slow binaries; the sanitizers' presets set the second factor.
PATIENCE = int(os.environ.get("CAPSTAN_TEST_PATIENCE", "1")) * int(os.environ.get("CAPSTAN_TEST_SLOWDOWN", "1"))


def patient(seconds):
    """Returns the limit of a wait: `seconds`, or more if the machine or the binaries are slow."""
    return seconds * PATIENCE


OUT_OF_TIME = "(limit of the test)"  # in each failure caused by a test's deadline; tests/suite looks for it
DEADLINE = patient(120)  # seconds for anything that should take a few
# This is put before a command, so that the command does not inherit ignored signals: nohup and background jobs of a
# shell ignore some.
OBEDIENT = "/usr/bin/env", "--default-signal=HUP,INT"
ENDLESS = 10**9  # steps of a job that runs until its test ends it
# Set where a test asserts that a job waits for nobody: on a busy machine its workers are late by more than a second.
LATE_REPORTS = f"limits.report={DEADLINE}"
# Each test process has its own loopback address, so another test cannot take a port there.
HOST = "127.{}.{}.{}".format(64 + (os.getpid() >> 16) % 64, (os.getpid() >> 8) % 256, os.getpid() % 256)
BIN = None

SMALL_JOB = """\
[job]
name = "small"
steps = {steps}
global_batch = 12
slots = 3
eval_every = 5

[model]
kind = "mlp"
hidden = [16]

[data]
{data}

[optimizer]
kind = "adamw"
clip_norm = 0.5

[cluster]
servers = 2
workers = 2

[limits]
join = {join}
lease = LEASE
report = 1
""".replace("LEASE", str(patient(3)))
SYNTHETIC = 'kind = "synthetic"\nsamples = 256\nfeatures = 8\nclasses = 4'


def main():
    global BIN
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, help="folder of the binaries")
    arguments, rest = parser.parse_known_args()
    BIN = os.path.abspath(arguments.bin)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


def program(name):
    return os.path.join(BIN, name)


def own_ports():
    """Returns ports outside of the range from which the system gives ports to processes that ask for any."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        first, last = map(int, file.read().split())
    return [*range(max(1024, first // 2), first), *range(last + 1, 1 << 16)] or range(first, last + 1)


def free_port():
    """Returns one of own_ports() that is free at all addresses, another one in each call."""
    ports = own_ports()
    for port in random.SystemRandom().sample(ports, len(ports)):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("", port))
            if port not in _ports:
                _ports.add(port)
                return port
    raise AssertionError(f"none of the {len(ports)} ports between {ports[0]} and {ports[-1]} is free")


def free_address():
    """Returns a free HOST:PORT, another one in each call, so that it stays free for the process that gets it."""
    while True:
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            address = "{}:{}".format(*probe.getsockname())
        if address not in _addresses:
            _addresses.add(address)
            return address


_addresses = set()
_ports = set()


def poll(condition, what, seconds=DEADLINE):
    """Waits until `condition()` is true; returns its result."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {seconds} s {OUT_OF_TIME}")
        threading.Event().wait(0.02)


class Process:
    """A child whose output is read line by line; killed at the end of its with block."""

    def __init__(self, *arguments, cwd=None):
        self.name = os.path.basename(arguments[0])
        self.lines = []
        self.arrived = threading.Condition()
        self.closed = False
        self.child = subprocess.Popen([*OBEDIENT, *arguments], cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      errors="replace", start_new_session=True)
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.child.stdout:
            with self.arrived:
                self.lines.append(line.rstrip("\n"))
                self.arrived.notify_all()
        with self.arrived:
            self.closed = True
            self.arrived.notify_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            self.child.kill()
        self.child.wait()
        self.reader.join()
        self.child.stdout.close()

    @property
    def pid(self):
        return self.child.pid

    @property
    def output(self):
        return "\n".join(self.lines)

    def wait_for_line(self, text, timeout=DEADLINE, since=0):
        """Waits for a line that contains `text`, and returns it. Ignores the first `since` lines."""
        found = lambda: next((line for line in self.lines[since:] if text in line), None)
        with self.arrived:
            if not self.arrived.wait_for(lambda: found() is not None or self.closed, timeout):
                raise AssertionError(f'{self.name} did not say "{text}" within {timeout} s {OUT_OF_TIME} but:\n{self.output}')
            if found() is None:
                raise AssertionError(f'{self.name} did not say "{text}" but:\n{self.output}')
            return found()

    def wait(self, timeout=DEADLINE):
        """Waits for the process's end, reads all its output and returns the exit code."""
        try:
            code = self.child.wait(timeout)
        except subprocess.TimeoutExpired:
            there = still_there.describe(self.child.pid)
            raise AssertionError(f"{self.name} did not end within {timeout} s {OUT_OF_TIME}; it said:\n{self.output}\n"
                                 f"still there:\n{there}") from None
        self.reader.join(DEADLINE)
        return code


def own_address(launch):
    """Returns the address that a launch without a program says for workers of the user's own."""
    return launch.wait_for_line("the workers are your own: ").split(" with CAPSTAN_COORDINATOR=")[1]


class Pid(int):
    """A process id from a file. The kernel reuses ids, so `started` distinguishes the process from a later one."""
    started = None  # in ticks since boot; None: it had ended before the file was read


def stat_of(pid):
    """Returns a process's state, and its start in ticks since boot; None if there is no such process."""
    try:
        with open(f"/proc/{pid:d}/stat", encoding="ascii", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
            return fields[0], int(fields[19])
    except (FileNotFoundError, ProcessLookupError):
        return None


def read_pid(path):
    with open(path, encoding="ascii") as file:
        pid, written = Pid(file.read()), os.fstat(file.fileno()).st_mtime
    stat = stat_of(pid)
    booted = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    # The file is written after the process's start. So a process that started later has reused the id; within a second
    # that does not happen.
    if stat is not None and booted + stat[1] / os.sysconf("SC_CLK_TCK") <= written + 1:
        pid.started = stat[1]
    return pid


def ended(pid):
    """Whether the process has ended, even if its parent has not reaped it yet."""
    stat = stat_of(pid)
    return stat is None or stat[0] in "ZX" or (isinstance(pid, Pid) and pid.started != stat[1])


class JobTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="capstan-e2e-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def job_file(self, steps=10, data=SYNTHETIC, join=patient(60)):
        return self.write("job.toml", SMALL_JOB.format(steps=steps, data=data, join=join))

    def launch(self, job, *arguments, run="run"):
        return Process(program("capstan"), "launch", job, "--run-dir", self.path(run), *arguments, cwd=self.folder)

    def slow_workers(self, run="run"):
        """Lets the run's workers run a tenth of the time within the block, so that a job whose test waits for something else
        leaves the processors to other tests."""
        def workers():
            with contextlib.suppress(FileNotFoundError, ValueError):  # a worker is just being started
                return [pid for name, pid in self.pids(run).items() if name.startswith("worker") and not ended(pid)]
            return []
        return slowed(workers, times=10)

    def pids(self, run="run"):
        """Returns the ids of the run's processes by name."""
        folder = self.path(run, "pids")
        return {name: read_pid(os.path.join(folder, name)) for name in os.listdir(folder) if "." not in name}

    def assert_nothing_runs(self, run="run"):
        left = {name: pid for name, pid in self.pids(run).items() if not ended(pid)}
        self.assertEqual(left, {}, "processes were left running")

    def metrics(self, run="run"):
        with open(self.path(run, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.endswith("\n")]  # the last may be under way

    def endpoints(self, run="run"):
        with open(self.path(run, "endpoints.json"), encoding="utf-8") as file:
            return json.load(file)

    def weights(self, run="run"):
        """Returns the names of the tensors in final.safetensors, in order, and the file's bytes. Checks that no bytes lie between
        tensors."""
        with open(self.path(run, "final.safetensors"), "rb") as file:
            content = file.read()
        (length,) = struct.unpack("<Q", content[:8])
        header = json.loads(content[8:8 + length])
        header.pop("__metadata__", None)
        offset = 0
        for name, tensor in header.items():
            self.assertEqual(tensor["data_offsets"][0], offset, name)
            offset = tensor["data_offsets"][1]
        self.assertEqual(len(content), 8 + length + offset)
        return list(header), content


@contextlib.contextmanager
def slowed(find, times):
    """Makes processes `times` times slower within the block, by pausing them again and again. `find()` returns their ids."""
    over = threading.Event()

    def toggle():
        while not over.wait(0.01):
            held = find()
            try:
                signal_all(held, signal.SIGSTOP)
                over.wait(0.01 * (times - 1))
            finally:
                signal_all(held, signal.SIGCONT)

    thread = threading.Thread(target=toggle)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def signal_all(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill(pid, number=signal.SIGKILL):
    if ended(pid):
        raise ProcessLookupError(f"process {pid} has ended")
    os.kill(pid, number)
