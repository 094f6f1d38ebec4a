#!/usr/bin/python3
"""allreduce.local_reduce = "nccl": the device of a machine's first worker adds up the pushes of its workers. The devices are
emulated, and a library of the tests replaces NCCL.

Every run has the weights of the same job without it.
"""
import os
import random
import re
import shutil
import signal

import harness
import recovery
import tier
from collective_jobs import REDUCED
from nccl_jobs import ENDLESS, FAULT, LEASE, MLP, PLACES, NcclJobTest
from same_bits_test import GPT_JOB

MLP_JOB = MLP.replace('mode = "allreduce"', 'mode = "sync"').replace("slots = 3", "slots = 4")
GPT = PLACES + GPT_JOB.replace("[worker]", '[worker]\ndevice = "emulated"\nprecision = "bf16"')
LOCAL = "allreduce.local_reduce=nccl"
ON_DEVICE = re.compile(r'added up on the device of "worker-\d", for (\d) workers, by NCCL 2\.28\.9')
OVER_GLOO = "added up over Gloo, because not all of its workers can on their devices: "


def names(count):
    return [f"worker-{index}" for index in range(count)]


class LocalReduceNcclTest(NcclJobTest):
    JOB = MLP_JOB

    def wait_until_reducing(self, launch, count):
        launch.wait_for_line("running: ")
        self.wait_until_counting(launch, names(count), REDUCED)

    def groups_on_devices(self, count):
        """Returns, for each of the first `count` workers, in how many groups of `count` it has reported to add up on a device."""
        return [ON_DEVICE.findall(self.logs(only=name)).count(str(count)) for name in names(count)]

    # ---- undisturbed

    def test_the_bits_are_those_of_every_worker_pushing_by_itself(self):
        cases = (MLP_JOB, 3, []), (MLP_JOB, 2, ["worker.precision=fp16"]), (GPT, 4, ["job.slots=4"])
        for index in tier.some("jobs", range(len(cases)), 2):
            text, count, more = cases[index]
            with self.subTest(more=more, gpt=text == GPT, workers=count):
                with self.begin(f"cluster.workers={count}", LOCAL, ENDLESS, *more, text=text) as launch:
                    self.wait_until_reducing(launch, count)
                    recovery.wait_for_steps(launch, self.path("run"), 5)
                    self.assert_stops_with_bits_of(launch, "cluster.workers=1", *more, text=text)
                self.assertTrue(all(self.groups_on_devices(count)), self.logs())
                self.assertNotIn(OVER_GLOO, self.logs())
                shutil.rmtree(self.path("run"))

    def test_what_devices_add_up_is_counted(self):
        with self.begin("cluster.workers=4", LOCAL, ENDLESS) as launch:
            self.wait_until_reducing(launch, 4)
            now = self.counters("worker-3")
            groups = {kind: now[f'capstan_worker_groups_total{{kind="{kind}"}}'] for kind in ("gloo", "nccl")}
            recovery.say(f"groups of worker-3: {groups}, {now[REDUCED]:.0f} bytes added up")
            self.assertGreaterEqual(groups["nccl"], 1)
            recovery.stop(launch)

    # ---- kills, pauses, and failures of NCCL

    def disturb_and_await(self, launch, victim, number):
        """Sends the victim a signal while three workers add up gradients, and waits until three do so again."""
        self.wait_until_reducing(launch, 3)
        (pid,) = self.disturb(launch, [victim], number)
        recovery.say(f"{victim}, signal {number}")
        recovery.wait_for_steps(launch, self.path("run"), 5)
        if number == signal.SIGSTOP:
            recovery.kill_if_alive(pid, signal.SIGCONT)
        self.wait_until_reducing(launch, 3)

    def test_whoever_is_killed_or_stands_still_the_bits_are_the_same(self):
        settings = ["cluster.workers=3", f"limits.lease={LEASE}"]
        for _ in range(recovery.CHAOS_RUNS):
            seed = recovery.chaos_seed()
            recovery.say(f"CAPSTAN_CHAOS_SEED={seed} repeats this run's choices")
            rng = random.Random(seed)
            victims = [(rng.choice(names(3)), signal.SIGSTOP), (rng.choice(names(3)), signal.SIGKILL),
                       (rng.choice(["coordinator", "server-0"]), signal.SIGKILL)]
            rng.shuffle(victims)
            with self.begin(*settings, LOCAL, ENDLESS, "snapshot.every_steps=20") as launch:
                for victim, number in victims:
                    self.disturb_and_await(launch, victim, number)
                self.assert_stops_with_bits_of(launch, "cluster.workers=1")
            self.assertTrue(all(self.groups_on_devices(3)), self.logs())
            shutil.rmtree(self.path("run"))

    def test_devices_that_fail_are_given_up_for_gloo(self):
        settings = ["cluster.workers=2", f"limits.lease={LEASE}"]
        for fault, words in tier.some("faults", (("error 1", "a peer is gone, as CAPSTAN_NCCL_FAULT asks"),
                                       ("hang 1", "was not done at its deadline"), ("init", "no way to form it")), 1):
            with self.subTest(fault):
                self.set_variable(FAULT, fault)
                with self.begin(*settings, LOCAL, ENDLESS) as launch:
                    launch.wait_for_line("running: ")
                    recovery.poll(lambda: OVER_GLOO in self.logs() or launch.closed, OVER_GLOO)
                    os.environ.pop(FAULT)
                    recovery.wait_for_steps(launch, self.path("run"), 2)
                    self.wait_until_reducing(launch, 2)
                    self.assert_stops_with_bits_of(launch, "cluster.workers=1")
                said = [line for line in self.logs().splitlines() if OVER_GLOO in line]
                self.assertIn(words, said[0])
                recovery.say(said[0])
                shutil.rmtree(self.path("run"))

    # ---- machines that have NCCL, and machines that lack it

    def test_a_worker_without_nccl_is_refused_by_name(self):
        ended = self.launched(LOCAL, program=self.with_a_worker_without_nccl())
        self.assertEqual(ended.returncode, 1, ended.stderr)
        said = self.assert_line_with(ended.stderr, "worker-1", 'local_reduce = "nccl"', "this worker cannot", 'or set "gloo"')
        recovery.say(said)
        self.assert_nothing_runs("run")

    def test_two_workers_of_one_device_take_gloo_and_say_why(self):
        self.set_variable("CAPSTAN_EMULATED_UUID", "7")
        with self.begin("cluster.workers=2", LOCAL, ENDLESS) as launch:
            self.wait_until_reducing(launch, 2)
            recovery.stop(launch)
        said = self.assert_line_with(self.logs("run", "worker-0"), OVER_GLOO, "compute on one device", '"worker-1"')
        recovery.say(said)


if __name__ == "__main__":
    harness.main()
