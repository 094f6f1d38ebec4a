"""Shared by tests of jobs whose workers' devices add up gradients among themselves: the devices are emulated, and a library
of the tests replaces NCCL."""
import os
import shutil
import subprocess

import harness
import recovery
from collective_jobs import CollectiveJob

STAND_IN = os.environ.get("CAPSTAN_NCCL_STAND_IN", "")
WHERE = "CAPSTAN_EMULATED_NCCL"
FAULT = "CAPSTAN_NCCL_FAULT"
LEASE = harness.patient(3)  # of jobs whose devices fail: the wait for them
LONG_LEASE = harness.patient(20)  # of undisturbed jobs, which a busy machine must not disturb either

PLACES = f"""
[cluster]
coordinator = "{harness.HOST}:0"
listen = "{harness.HOST}:0"

[metrics]
listen = "{harness.HOST}:0"
"""

# A job with several buckets. The last step of an epoch has one sample, so some slots have none.
MLP = f"""
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

[schedule]
kind = "constant"

[worker]
device = "emulated"
accumulate = 2

[allreduce]
bucket_mib = 0.0625

[limits]
lease = {LONG_LEASE}
report = 1
stall = {recovery.STALL}
""" + PLACES
OVER_HOSTS = "allreduce.collective=gloo"
ENDLESS = f"job.steps={harness.ENDLESS}"


class NcclJobTest(CollectiveJob, recovery.SameBitsTest):
    JOB = ""

    def setUp(self):
        super().setUp()
        self.assertTrue(os.path.exists(STAND_IN), f"CAPSTAN_NCCL_STAND_IN={STAND_IN} is not there")
        self.set_variable(WHERE, STAND_IN)

    def set_variable(self, name, value):
        before = os.environ.get(name)
        os.environ[name] = value
        self.addCleanup(lambda: os.environ.pop(name, None) if before is None else os.environ.update({name: before}))

    def logs(self, run="run", only="worker-"):
        return recovery.RecoveryTest.logs(self, run, only)

    def begin(self, *settings, text=None, run="run"):
        return self.launch(self.write(f"{run}.toml", text or self.JOB), *recovery.options(settings), run=run)

    def assert_ends_with_bits_of(self, launch, *settings, run="run"):
        """Checks that the job ends by itself with the weights of an undisturbed one with these settings."""
        self.assertEqual(launch.wait(), 0, launch.output)
        self.assertEqual(recovery.digest_of(self.path(run)), recovery.undisturbed(self.JOB, settings), launch.output)
        self.assert_nothing_runs(run)

    def assert_stops_with_bits_of(self, launch, *settings, text=None, run="run"):
        """Stops an endless job. Checks that it has the weights of an undisturbed job that did as many steps."""
        steps = recovery.stop(launch)
        calm = recovery.undisturbed(text or self.JOB, [*settings, f"job.steps={steps}"])
        self.assertEqual(recovery.digest_of_version(self.path(run), steps), calm, f"after {steps} steps:\n{launch.output}")
        self.assert_nothing_runs(run)

    def with_a_worker_without_nccl(self):
        """Makes a folder of programs in which worker-1 has no NCCL. Returns the path of its capstan."""
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
        return subprocess.run([program or harness.program("capstan"), "launch", self.write("job.toml", self.JOB), "--run-dir",
                               self.path(run), *recovery.options(["cluster.workers=2", *settings])],
                              capture_output=True, text=True, timeout=2 * harness.DEADLINE, check=False)

    def assert_line_with(self, text, *words):
        return recovery.RecoveryTest.assert_one_line_says(self, text, *words)
