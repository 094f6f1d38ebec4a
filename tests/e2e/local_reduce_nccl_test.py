#!/usr/bin/python3
"""allreduce.local_reduce = "nccl": the device of a machine's first worker adds up what its workers push: devices are
emulated, and a library of the tests stands in for NCCL.

Every run ends with the weights of the same job without it.
"""
import contextlib
import os
import re
import shutil
import signal

import harness
import recovery
from nccl_jobs import FAULT, MLP, NcclJobTest
from same_bits_test import GPT_JOB

MLP_JOB = MLP.replace('mode = "allreduce"', 'mode = "sync"').replace("slots = 3", "slots = 4")
GPT = GPT_JOB.replace("[worker]", '[worker]\ndevice = "emulated"\nprecision = "bf16"')
LOCAL = "allreduce.local_reduce=nccl"
ON_DEVICE = re.compile(r'added up on the device of "worker-\d", for (\d) workers, by NCCL 2\.28\.9')
OVER_GLOO = "added up over Gloo, because not all of its workers can on their devices: "


class LocalReduceNcclTest(NcclJobTest):
    JOB = MLP_JOB

    def groups(self, worker, kind):
        return self.counter_of_worker(worker, f'groups_total{{kind="{kind}"}}')

    def reduced(self, worker):
        return self.counter_of_worker(worker, "reduced_bytes_total")

    def wait_until_reducing(self, launch, worker="worker-1"):
        seen = []

        def grows():
            with contextlib.suppress(OSError):  # it may have been killed just now
                seen.append(self.reduced(worker))
            return bool(seen) and seen[-1] > seen[0]
        recovery.poll(lambda: launch.closed or grows(), f"{worker} adding up gradients")
        self.assertFalse(launch.closed, launch.output)

    # ---- undisturbed

    def test_the_bits_are_those_of_every_worker_pushing_by_itself(self):
        for text, more in ((MLP_JOB, []), (MLP_JOB, ["worker.precision=fp16"]), (GPT, ["job.slots=4"])):
            alone = self.run_job(text, "alone", "cluster.workers=1", *more)
            for workers in (2, 3, 4):
                with self.subTest(more=more, gpt=text == GPT, workers=workers):
                    digest = self.run_job(text, "nccl", f"cluster.workers={workers}", LOCAL, *more)
                    self.assertEqual(digest, alone)
                    self.assertEqual(set(ON_DEVICE.findall(self.logs("nccl"))), {str(workers)}, self.logs("nccl"))
                    self.assertNotIn(OVER_GLOO, self.logs("nccl"))
                    shutil.rmtree(self.path("nccl"))
            recovery.say(f"{'gpt' if text == GPT else 'mlp'} {more}: {alone[:16]}")
            shutil.rmtree(self.path("alone"))

    def test_what_devices_add_up_is_counted(self):
        with self.begin("cluster.workers=4", LOCAL, "job.steps=100000") as launch:
            launch.wait_for_line("running: ")
            self.wait_until_reducing(launch, "worker-3")
            groups = {kind: self.groups("worker-3", kind) for kind in ("gloo", "nccl")}
            recovery.say(f"groups of worker-3: {groups}, {self.reduced('worker-3'):.0f} bytes added up")
            self.assertGreaterEqual(groups["nccl"], 1)

    # ---- kills, pauses, and what NCCL does not do

    def test_whoever_is_killed_or_stands_still_the_bits_are_the_same(self):
        settings = ["cluster.workers=3", "job.steps=300", "snapshot.every_steps=20"]
        with self.begin(*settings, LOCAL, "limits.lease=1") as launch:
            launch.wait_for_line("running: ")
            for victim, number in (("worker-0", signal.SIGKILL), ("worker-1", signal.SIGSTOP), ("worker-2", signal.SIGKILL),
                                   ("coordinator", signal.SIGKILL), ("server-0", signal.SIGKILL)):
                self.wait_until_reducing(launch, "worker-2" if victim == "worker-0" else "worker-0")
                pid = recovery.pid_of(self.path("run"), victim)
                self.assertTrue(recovery.kill_if_alive(pid, number), victim)
                self.wait_for_steps(launch, 5)
                if number == signal.SIGSTOP:
                    recovery.kill_if_alive(pid, signal.SIGCONT)
            self.assert_calm_bits(launch, *settings)

    def test_devices_that_fail_are_given_up_for_gloo(self):
        for fault, steps, words in (("error 1", 400, "a peer is gone, as CAPSTAN_NCCL_FAULT asks"),
                                    ("hang 1", 400, "was not done at its deadline"),
                                    ("init", 60, "no way to form it")):
            with self.subTest(fault):
                settings = ["cluster.workers=2", f"job.steps={steps}", "limits.lease=1"]
                self.set_variable(FAULT, fault)
                with self.begin(*settings, LOCAL) as launch:
                    launch.wait_for_line("running: ")
                    recovery.poll(lambda: OVER_GLOO in self.logs("run") or launch.closed, OVER_GLOO)
                    os.environ.pop(FAULT)
                    self.assert_calm_bits(launch, *settings)
                said = [line for line in self.logs("run").splitlines() if OVER_GLOO in line]
                self.assertIn(words, said[0])
                recovery.say(said[0])
                for run in ("run", "calm"):
                    shutil.rmtree(self.path(run))

    # ---- who has it, and who has not

    def test_a_worker_without_nccl_is_refused_by_name(self):
        ended = self.launched(LOCAL, program=self.with_a_worker_without_nccl())
        self.assertEqual(ended.returncode, 1, ended.stderr)
        said = self.assert_line_with(ended.stderr, "worker-1", 'local_reduce = "nccl"', "this worker cannot", 'or set "gloo"')
        recovery.say(said)
        self.assert_nothing_runs("run")

    def test_two_workers_of_one_device_take_gloo_and_say_why(self):
        self.set_variable("CAPSTAN_EMULATED_UUID", "7")
        ended = self.launched(LOCAL)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        said = self.assert_line_with(self.logs("run", "worker-0"), OVER_GLOO, "compute on one device", '"worker-1"')
        recovery.say(said)


if __name__ == "__main__":
    harness.main()
