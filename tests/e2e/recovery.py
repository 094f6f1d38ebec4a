"""Shared by the tests of recovery: one job, its undisturbed weights, and ways to disturb and to watch a run.

A disturbed job does not end by itself, so no machine is too fast for its test: the test stops the job when it has finished.
The last snapshot, which a job takes when it is stopped, must have the bytes that an undisturbed job of as many steps has at
its end. So learning rates must not depend on the number of steps.
"""
import bisect
import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import harness

# Settings that these jobs share; a job may add its own rates.
LEARNING = f"""\
[cluster]
coordinator = "{harness.HOST}:0"
listen = "{harness.HOST}:0"
servers = 2
workers = 3

[metrics]
listen = "{harness.HOST}:0"

[data]
kind = "synthetic"
samples = 500
features = 300
classes = 10

[optimizer]
kind = "adamw"
lr = 0.002
"""

# The job's two large tensors are blocks of their own, so that both shards own some. The slots do not divide the batch.
# Some steps exceed the clip norm and others do not, so that shards exchange norms (checked on undisturbed runs).
CLIP_NORM = 0.08
JOB = """\
[job]
name = "recovery"
steps = {steps}
seed = 3
global_batch = 17
slots = 5
eval_every = 50

[model]
kind = "mlp"
hidden = [300, 256]
dropout = 0.1

""" + LEARNING + """\
clip_norm = {clip_norm}

[schedule]
kind = "constant"
warmup_steps = 10

[snapshot]
every_steps = {every}

[limits]
join = {join}
lease = {lease}
report = 1
stall = {stall}
"""


# The number of rounds of random or repeated parts of a test. One is enough for a change; a nightly run has time for
# many.
CHAOS_RUNS = int(os.environ.get("CAPSTAN_CHAOS_RUNS", "1"))


def say(*words):
    print(*words, flush=True)


def chaos_seed():
    """Returns the seed of random disturbances. Each test prints it, so that its choices can be repeated."""
    if seed := int(os.environ.get("CAPSTAN_CHAOS_SEED", "0")):
        return seed
    seed = os.environ.get("CAPSTAN_TEST_SEED")
    return 1 + int(seed) if seed else random.SystemRandom().randrange(1, 1 << 31)


poll = harness.poll

STALL = harness.patient(180)  # longer than tests wait for anything
# Settings of a job that loses processes.
KEPT = ["snapshot.every_steps=10", f"limits.lease={harness.patient(3)}", f"limits.stall={STALL}"]
ONE_OF_EACH = ["cluster.workers=1", "cluster.servers=1"]


class RecoveryTest(harness.JobTest):
    EVERY, JOIN, LEASE = 25, harness.patient(60), harness.patient(3)
    STEPS = harness.ENDLESS  # of a job for which a test sets no number of steps
    UNDISTURBED = ONE_OF_EACH  # processes of the undisturbed job; its bits do not depend on them

    @classmethod
    def text(cls, steps):
        """The job file."""
        return JOB.format(steps=steps, clip_norm=CLIP_NORM, every=cls.EVERY, join=cls.JOIN, lease=cls.LEASE, stall=STALL)

    def job(self, steps=None):
        return self.write("job.toml", self.text(steps or self.STEPS))

    @classmethod
    def golden(cls, steps):
        """Returns the sha256 of the weights after so many undisturbed steps. Runs a job once for each number of steps."""
        return undisturbed(cls.text(steps), cls.UNDISTURBED, check_that_some_are_clipped)

    def resume(self, *arguments, run="run"):
        return harness.Process(harness.program("capstan"), "launch", "--resume", "--run-dir", self.path(run), *arguments,
                               cwd=self.folder)

    def assert_same_bits(self, launch, run="run", steps=None):
        """Checks that the job ends by itself, after `steps` or STEPS, with the weights of an undisturbed one."""
        steps = steps or self.STEPS
        self.assertEqual(launch.wait(), 0, launch.output)
        self.assertEqual(digest_of(self.path(run)), self.golden(steps), f"other weights than undisturbed:\n{launch.output}")
        self.assert_whole_history(run, steps)

    def assert_stops_with_same_bits(self, launch, run="run"):
        """Stops the job; its last snapshot must have an undisturbed job's weights. Returns its number of steps."""
        poll(lambda: launch.closed or has_caught_up(self.path(run)), "the steps that were taken back")
        poll(lambda: launch.closed or are_some_clipped(records(self.path(run))), "steps that are clipped, and others")
        steps = stop(launch)
        self.assertEqual(digest_of_version(self.path(run), steps), self.golden(steps),
                         f"other weights than undisturbed after {steps} steps:\n{launch.output}")
        self.assert_whole_history(run, steps)
        return steps

    def assert_whole_history(self, run="run", steps=None):
        """Checks that every step is there, and that its last record has the highest generation seen for it."""
        last, highest = {}, {}
        for record in records(self.path(run)):
            step = record["step"]
            last[step] = record["generation"]
            highest[step] = max(highest.get(step, 0), record["generation"])
        self.assertEqual(sorted(last), list(range(steps or self.STEPS)))
        self.assertEqual(last, highest)

    def wait_for_steps(self, launch, count, run="run"):
        """Waits until metrics.jsonl has `count` records more than now."""
        wait_for_steps(launch, self.path(run), count)

    def logs(self, run="run", only=None):
        text = ""
        folder = self.path(run, "logs")
        for name in sorted(os.listdir(folder)):
            if only is None or name.startswith(only):
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    text += file.read()
        return text

    def assert_one_line_says(self, text, *words):
        said = [line for line in text.splitlines() if all(word in line for word in words)]
        self.assertTrue(said, f"no line says {words}:\n{text}")
        return said[0]


class SameBitsTest(harness.JobTest):
    """Jobs that must end with the same weights."""

    def run_job(self, text, name, *settings):
        """Runs a job to its end and returns the sha256 of its final weights."""
        with self.launch(self.write(f"{name}.toml", text), *options(settings), run=name) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        self.assert_nothing_runs(name)
        return digest_of(self.path(name))

    def assert_one_digest(self, text, settings, *cases):
        digests = {}
        for index, (what, more) in enumerate(cases):
            shutil.rmtree(self.path(f"run{index}"), ignore_errors=True)  # of other cases
            digests[what] = self.run_job(text, f"run{index}", *settings, *more)
        self.assertEqual(len(set(digests.values())), 1, digests)
        return digests.popitem()[1]

    def run_killed(self, text, name, *settings, kills=()):
        """Sends SIGKILL to these processes one after the other, then stops the job; returns its steps and sha256."""
        endless = [*settings, f"job.steps={harness.ENDLESS}"]
        with self.launch(self.write(f"{name}.toml", text), *options(endless), run=name) as launch:
            for victim in kills:
                wait_for_steps(launch, self.path(name), 4)
                self.assertTrue(kill_if_alive(pid_of(self.path(name), victim), signal.SIGKILL), victim)
            wait_for_steps(launch, self.path(name), 4)
            steps = stop(launch)
        self.assert_nothing_runs(name)
        return steps, digest_of_version(self.path(name), steps)

    def assert_kills_move_no_bit(self, text, settings, kills):
        settings = [*settings, *KEPT, "cluster.workers=2", "cluster.servers=2", 'schedule.kind="constant"']
        steps, killed = self.run_killed(text, "killed", *settings, kills=kills)
        self.assertEqual(killed, self.run_job(text, "calm", *settings, f"job.steps={steps}"), (settings, steps))
        for run in ("calm", "killed"):
            shutil.rmtree(self.path(run))


def options(settings):
    return [word for setting in settings for word in ("--set", setting)]


def wait_for_steps(launch, run, count):
    """Waits until metrics.jsonl has `count` records more than now."""
    begun = count_records(run)
    poll(lambda: count_records(run) >= begun + count or launch.closed, f"{count} more steps")
    if launch.closed:
        raise AssertionError(f"it ended early:\n{launch.output}")


def has_caught_up(run):
    """Whether the job has again done all steps that it had done before it went back."""
    steps = [record["step"] for record in records(run)]
    return bool(steps) and steps[-1] == max(steps)


def stop(launch):
    """Sends Ctrl-C to a launcher or a hand-started coordinator. Returns the version of its last snapshot."""
    if launch.closed:
        raise AssertionError(f"it ended before it was stopped:\n{launch.output}")
    harness.kill(launch.pid, signal.SIGINT)
    code = launch.wait(harness.DEADLINE + harness.patient(60))  # it may wait so long for the snapshot
    said = re.search(r"stopped at step (\d+); the newest snapshot is of version (\d+),", launch.output)
    if code != 128 + signal.SIGINT or said is None or said[1] != said[2]:
        raise AssertionError(f"it did not stop with a snapshot of its last step, but ended with {code}:\n{launch.output}")
    return int(said[1])


def are_some_clipped(steps):
    """Whether some steps exceed the clip norm and others do not."""
    return 0 < sum(step["grad_norm"] > CLIP_NORM for step in steps) < len(steps)


def check_that_some_are_clipped(steps):
    assert are_some_clipped(steps), [step["grad_norm"] for step in steps]


_undisturbed = {}


def undisturbed(job, settings, check=lambda steps: None):
    """Returns the sha256 of the final weights of an undisturbed job with this text. Runs the job only in the first call, and
    then passes the records of its steps to `check`."""
    key = (job, tuple(settings))
    if key not in _undisturbed:
        with tempfile.TemporaryDirectory(prefix="capstan-golden-") as folder:
            path, run = os.path.join(folder, "job.toml"), os.path.join(folder, "run")
            with open(path, "w", encoding="utf-8") as file:
                file.write(job)
            began = time.monotonic()
            command = [harness.program("capstan"), "launch", path, "--run-dir", run, *options(settings)]
            with harness.Process(*command, cwd=folder) as launch:
                if launch.wait(4 * harness.DEADLINE) != 0:
                    raise AssertionError(f"an undisturbed job failed:\n{launch.output}")
            check(records(run))
            _undisturbed[key] = digest_of(run)
            say(f"undisturbed: {count_records(run)} steps in {time.monotonic() - began:.1f} s, "
                f"sha256 {_undisturbed[key][:16]}")
    return _undisturbed[key]


def digest_of_version(run, version):
    """Returns the sha256 of the weights of one snapshot, as `capstan snapshot export` writes them."""
    with tempfile.TemporaryDirectory(prefix="capstan-export-") as folder:
        path = os.path.join(folder, "weights.safetensors")
        done = subprocess.run([harness.program("capstan"), "snapshot", "export", "--run-dir", run, "--step", str(version),
                               "--to", path], capture_output=True, text=True, timeout=harness.DEADLINE, check=False)
        if done.returncode != 0:
            raise AssertionError(f"the snapshot of version {version} is not exported:\n{done.stdout}{done.stderr}")
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()


def digest_of(run):
    try:
        with open(os.path.join(run, "final.safetensors"), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()
    except FileNotFoundError:
        return "no final.safetensors"


def lines_of(run):
    try:
        with open(os.path.join(run, "metrics.jsonl"), "rb") as file:
            return [line for line in file if line.endswith(b"\n")]
    except FileNotFoundError:
        return []


def records(run):
    return [json.loads(line) for line in lines_of(run)]


def count_records(run):
    return len(lines_of(run))


def snapshots_in(run):
    """Returns the folders of the run's shards, by number."""
    folder = os.path.join(run, "snapshots")
    return {int(name.split("-")[1]): os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("shard-")}


def pid_of(run, name):
    return harness.read_pid(os.path.join(run, "pids", name))


def wait_until_alive(run, name):
    """Waits until a process of this name runs: the launcher has restarted it."""
    poll(lambda: not harness.ended(pid_of(run, name)), f"a start of {name}")


def names_in(run):
    with contextlib.suppress(FileNotFoundError):
        return sorted(name for name in os.listdir(os.path.join(run, "pids")) if "." not in name)
    return []


class StepClock:
    """Notes when each record of metrics.jsonl was first seen, to 5 ms, by the test's clock."""

    def __init__(self, run):
        self.path = os.path.join(run, "metrics.jsonl")
        self.seen = []  # (monotonic seconds, records by then)
        self.count = 0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def _watch(self):
        while not os.path.exists(self.path) and not self.ended.wait(0.01):
            pass
        if self.ended.is_set():
            return
        with open(self.path, "rb") as file:
            while True:
                chunk = file.read()
                if chunk.count(b"\n") > 0:
                    self.count += chunk.count(b"\n")
                    self.seen.append((time.monotonic(), self.count))
                if self.ended.wait(0.005):
                    return

    def first_step_after(self, moment):
        """Returns the seconds from `moment` to the next record; None if there is none yet."""
        index = bisect.bisect_right(self.seen, moment, key=lambda entry: entry[0])
        return self.seen[index][0] - moment if index < len(self.seen) else None


def kill_if_alive(pid, number):
    """Sends the signal if the process runs. Returns whether it was sent."""
    if harness.ended(pid):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False


def kill_one(run, rng):
    """Kills a random running process; returns its name, or none if all are dead."""
    names = names_in(run)
    for name in rng.sample(names, len(names)):
        if kill_if_alive(pid_of(run, name), signal.SIGKILL):
            return name
    return None


def kill_until_done(launch, run, steps):
    """Kills random processes of a job that ends by itself; the last kill comes while it ends, or later."""
    seed = chaos_seed()
    say(f"CAPSTAN_CHAOS_SEED={seed}")
    rng, wanted, kills = random.Random(seed), 0, []
    done = lambda: max((record["step"] + 1 for record in records(run)), default=0)
    while wanted < steps and not launch.closed:
        wanted = min(done() + rng.randint(1, 60), steps)
        poll(lambda: done() >= wanted or launch.closed, f"{wanted} steps")
        kills.append(kill_one(run, rng))
    say(f"killed: {' '.join(name for name in kills if name)}")
