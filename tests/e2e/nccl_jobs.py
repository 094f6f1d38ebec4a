"""What tests of jobs have in common whose workers' devices add up gradients among themselves: devices are emulated, and a
library of the tests stands in for NCCL."""
import os
import shutil
import subprocess
import urllib.request

import harness
import recovery

STAND_IN = os.environ.get("CAPSTAN_NCCL_STAND_IN", "")
WHERE = "CAPSTAN_EMULATED_NCCL"
FAULT = "CAPSTAN_NCCL_FAULT"

# Several buckets; the last step of an epoch has one sample, and slots without any.
MLP = """
[job]
name = "nccl"
mode = "allreduce"
steps = 20
seed = 7
global_batch = 12
slots = 3
eval_every = 6

[model]
kind = "mlp"
hidden = [300, 256]
dropout = 0.2

[data]
kind = "synthetic"
samples = 41
features = 300
classes = 7

[optimizer]
kind = "adamw"
lr = 0.002
clip_norm = 1.0

[worker]
device = "emulated"
accumulate = 2

[allreduce]
bucket_mib = 0.0625

[limits]
lease = 2
report = 1
stall = 60
"""


class NcclJobTest(recovery.SameBitsTest):
    JOB = ""

    def setUp(self):
        super().setUp()
        self.assertTrue(os.path.exists(STAND_IN), f"CAPSTAN_NCCL_STAND_IN={STAND_IN} is not there")
        self.set_variable(WHERE, STAND_IN)

    def set_variable(self, name, value):
        before = os.environ.get(name)
        os.environ[name] = value
        self.addCleanup(lambda: os.environ.pop(name, None) if before is None else os.environ.update({name: before}))

    def logs(self, run, only="worker-"):
        return recovery.RecoveryTest.logs(self, run, only)

    def counter_of_worker(self, worker, name):
        address = self.endpoints("run")["metrics"][worker]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
            values = dict(line.rsplit(" ", 1) for line in page.read().decode().splitlines() if not line.startswith("#"))
        return float(values[f"capstan_worker_{name}"])

    def begin(self, *settings, run="run"):
        arguments = [word for setting in settings for word in ("--set", setting)]
        return self.launch(self.write("job.toml", self.JOB), *arguments, run=run)

    def wait_for_steps(self, launch, count, run="run"):
        recovery.RecoveryTest.wait_for_steps(self, launch, count, run)

    def assert_calm_bits(self, launch, *settings):
        self.assertEqual(launch.wait(), 0, launch.output)
        calm = self.run_job(self.JOB, "calm", *settings, "allreduce.collective=gloo")
        self.assertEqual(recovery.digest_of(self.path("run")), calm, launch.output)
        self.assert_nothing_runs("run")

    def with_a_worker_without_nccl(self):
        """A folder of programs of which worker-1 has no NCCL."""
        folder = self.path("programs")
        os.makedirs(folder, exist_ok=True)
        for name in ("capstan", "capstan-server"):
            shutil.copy(harness.program(name), folder)
        worker = os.path.join(folder, "capstan-worker")
        with open(worker, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\ncase "$*" in *worker-1*) unset {WHERE} ;; esac\nexec {harness.program("capstan-worker")} "$@"\n')
        os.chmod(worker, 0o755)
        return os.path.join(folder, "capstan")

    def launched(self, *settings, program=None, run="run"):
        shutil.rmtree(self.path(run), ignore_errors=True)
        arguments = [word for setting in ("cluster.workers=2", *settings) for word in ("--set", setting)]
        return subprocess.run([program or harness.program("capstan"), "launch", self.write("job.toml", self.JOB), "--run-dir",
                               self.path(run), *arguments], capture_output=True, text=True, timeout=harness.DEADLINE)

    def assert_line_with(self, text, *words):
        return recovery.RecoveryTest.assert_one_line_says(self, text, *words)
