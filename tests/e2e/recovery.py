"""What the tests of recovery share: one job, its undisturbed weights, and ways to disturb and to watch a run.

Every test ends a disturbed run with the bytes of final.safetensors that an undisturbed run of the same script wrote.
"""
import bisect
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import tempfile
import threading
import time

import harness

# What these jobs have in common; their own rates may follow.
LEARNING = """\
[cluster]
servers = 2
workers = 3

[data]
kind = "synthetic"
samples = 500
features = 300
classes = 10

[optimizer]
kind = "adamw"
lr = 0.002
"""

# Two tensors are blocks of their own, so that both shards own some; the batch is not divided by the slots; the clip norm
# is exceeded in some steps and not in others, so that shards exchange norms (checked on the undisturbed run).
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
clip_norm = 0.08

[schedule]
kind = "cosine"
warmup_steps = 10

[snapshot]
every_steps = {every}

[limits]
join = {join}
lease = {lease}
report = 1
stall = 60
"""


def say(*words):
    print(*words, flush=True)


def seed_of_today():
    """Printed by who uses it, so that a run can be repeated."""
    return int(os.environ.get("CAPSTAN_CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)


def poll(condition, what, seconds=harness.DEADLINE):
    """What `condition` returns once it is true."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not happen within {seconds} s")
        threading.Event().wait(0.02)


# What a job needs that loses processes.
KEPT = ["snapshot.every_steps=10", "limits.lease=1.5", "limits.stall=60"]


class RecoveryTest(harness.JobTest):
    STEPS, EVERY, JOIN, LEASE = 400, 25, 20, 2

    @classmethod
    def setUpClass(cls):
        cls.golden_folder = tempfile.mkdtemp(prefix="capstan-golden-")
        cls.addClassCleanup(shutil.rmtree, cls.golden_folder, ignore_errors=True)
        run = os.path.join(cls.golden_folder, "run")
        began = time.monotonic()
        with harness.Process(harness.program("capstan"), "launch", cls.write_job(cls.golden_folder), "--run-dir", run) as launch:
            code = launch.wait()
            assert code == 0, launch.output
        cls.golden = digest_of(run)
        clipped = [step["grad_norm"] > 0.08 for step in records(run)]
        assert len(clipped) == cls.STEPS and any(clipped) and not all(clipped), f"clipped in {sum(clipped)} steps"
        say(f"undisturbed: {cls.STEPS} steps in {time.monotonic() - began:.1f} s, {sum(clipped)} of them clipped, "
            f"sha256 {cls.golden[:16]}")

    @classmethod
    def write_job(cls, folder):
        path = os.path.join(folder, "job.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(JOB.format(steps=cls.STEPS, every=cls.EVERY, join=cls.JOIN, lease=cls.LEASE))
        return path

    def job(self):
        return self.write_job(self.folder)

    def resume(self, *arguments, run="run"):
        return harness.Process(harness.program("capstan"), "launch", "--resume", "--run-dir", self.path(run), *arguments,
                               cwd=self.folder)

    def assert_same_bits(self, launch, run="run"):
        self.assertEqual(launch.wait(), 0, launch.output)
        self.assertEqual(digest_of(self.path(run)), self.golden, f"other weights than undisturbed; it said:\n{launch.output}")
        self.assert_whole_history(run)

    def assert_whole_history(self, run="run"):
        """Every step is there, and the last record of each is of the highest generation seen for it."""
        last, highest = {}, {}
        for record in records(self.path(run)):
            step = record["step"]
            last[step] = record["generation"]
            highest[step] = max(highest.get(step, 0), record["generation"])
        self.assertEqual(sorted(last), list(range(self.STEPS)))
        self.assertEqual(last, highest)

    def wait_for_steps(self, launch, count, run="run"):
        """Until `count` records more than now are in metrics.jsonl."""
        begun = count_records(self.path(run))
        poll(lambda: count_records(self.path(run)) >= begun + count or launch.closed, f"{count} more steps")
        self.assertFalse(launch.closed, f"it ended early:\n{launch.output}")

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
    """Jobs that are to end with the same weights."""

    def run_job(self, text, name, *settings, kills=()):
        """The sha256 of the final weights. `kills`: processes that get SIGKILL once the job moves, one after the other."""
        job = self.write(f"{name}.toml", text)
        arguments = [word for setting in settings for word in ("--set", setting)]
        with self.launch(job, *arguments, run=name) as launch:
            for victim in kills:
                begun = count_records(self.path(name))
                poll(lambda: count_records(self.path(name)) > begun + 3 or launch.closed, "steps")
                self.assertTrue(kill_if_alive(pid_of(self.path(name), victim), signal.SIGKILL),
                                f"{victim} had ended before it could be killed")
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

    def assert_kills_move_no_bit(self, text, settings, kills):
        settings = [*settings, *KEPT, "cluster.workers=2", "cluster.servers=2"]
        calm = self.run_job(text, "calm", *settings)
        self.assertEqual(self.run_job(text, "killed", *settings, kills=kills), calm, settings)
        for run in ("calm", "killed"):
            shutil.rmtree(self.path(run))


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
    """Folders of shards by number."""
    folder = os.path.join(run, "snapshots")
    return {int(name.split("-")[1]): os.path.join(folder, name) for name in os.listdir(folder) if name.startswith("shard-")}


def pid_of(run, name):
    with open(os.path.join(run, "pids", name), encoding="ascii") as file:
        return int(file.read())


def names_in(run):
    with contextlib.suppress(FileNotFoundError):
        return sorted(name for name in os.listdir(os.path.join(run, "pids")) if "." not in name)
    return []


class StepClock:
    """Notes when each record of metrics.jsonl was first seen, to 5 ms: its own clock, not the run's."""

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
        """Seconds from `moment` to the next record, or None."""
        index = bisect.bisect_right(self.seen, moment, key=lambda entry: entry[0])
        return self.seen[index][0] - moment if index < len(self.seen) else None

    def steps_between(self, begin, end):
        def count_at(moment):
            index = bisect.bisect_right(self.seen, moment, key=lambda entry: entry[0])
            return self.seen[index - 1][1] if index > 0 else 0
        return count_at(end) - count_at(begin)


def kill_if_alive(pid, number):
    """Whether the signal hit a process of ours that was alive."""
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as file:
            ours = file.read().startswith("capstan")
    except (FileNotFoundError, ProcessLookupError):
        return False
    if not ours or harness.ended(pid):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False
