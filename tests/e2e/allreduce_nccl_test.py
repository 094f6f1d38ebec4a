#!/usr/bin/python3
"""Mode allreduce with devices that add up gradients among themselves: the devices are emulated, and a library of the tests
replaces NCCL.

With two workers the sums equal those over Gloo, and with two slots those of mode sync, to the bit.
"""
import os
import random
import re
import shutil
import signal

import harness
import recovery
import tier
from collective_jobs import REDUCED, SENT
from nccl_jobs import ENDLESS, FAULT, LEASE, MLP, OVER_HOSTS, PLACES, NcclJobTest
from same_bits_test import GPT_JOB

GRADIENT = 4 * (300 * 300 + 300 * 256 + 256 * 7 + 300 + 256 + 7)
VERSION = 3 * GRADIENT  # weights, and what adamw keeps of each
GPT = PLACES + GPT_JOB.replace('mode = "sync"', 'mode = "allreduce"').replace(
    "[worker]", '[worker]\ndevice = "emulated"\nprecision = "bf16"')
NCCL = re.compile(r"added up on the devices of (\d) workers, by NCCL 2\.28\.9")
OVER_GLOO = "added up over Gloo, because not all workers can on their devices: "
ON_DEVICES = 'capstan_worker_groups_total{kind="nccl"}'
BOTH = ("worker-0", "worker-1")
PAIR = ["cluster.workers=2", "job.slots=2"]
IN_MODE_SYNC = ["cluster.workers=1", "job.slots=2", "job.mode=sync"]  # what a pair's weights are compared with


class AllReduceNcclTest(NcclJobTest):
    JOB = MLP

    def losses(self, run):
        return [step["loss"] for step in recovery.records(self.path(run))]

    def assert_on_devices(self, run, workers):
        said = NCCL.findall(self.logs(run))
        self.assertEqual(said, [str(workers)] * workers, self.logs(run))
        self.assertNotIn(OVER_GLOO, self.logs(run))

    def assert_each_says(self, *words):
        """Checks that the logs of both workers have a line with these words about how gradients are added up. Returns one."""
        for name in BOTH:
            said = self.assert_line_with(self.logs(only=name), OVER_GLOO, *words)
        return said

    def run_all(self, text, *cases):
        """Runs a job for each case, (name, settings). Returns the digests of the weights by name."""
        return {name: self.run_job(text, name, *settings) for name, settings in cases}

    # ---- undisturbed

    def test_two_workers_have_the_bits_of_gloo(self):
        for text, collective, more in ((GPT, "auto", []), (MLP, "nccl", ["job.global_batch=4", "job.slots=4"])):
            with self.subTest(more=more, gpt=text == GPT):
                settings = ["cluster.workers=2", *more]
                digests = self.run_all(text, ("gloo", [*settings, OVER_HOSTS]),
                                       ("nccl", [*settings, f"allreduce.collective={collective}"]))
                self.assertEqual(digests["nccl"], digests["gloo"])
                self.assert_on_devices("nccl", 2)
                self.assertNotRegex(self.logs("gloo"), NCCL)
                recovery.say(f"{'gpt' if text == GPT else 'mlp'} {more}: {digests['nccl'][:16]}")
                for run in digests:
                    shutil.rmtree(self.path(run))

    def test_two_slots_have_the_bits_of_mode_sync(self):
        with self.begin(*PAIR, run="nccl") as launch:
            self.assert_ends_with_bits_of(launch, *IN_MODE_SYNC, run="nccl")
        self.assert_on_devices("nccl", 2)

    def losses_apart(self, text, slots, again, *more):
        """Runs a job of three workers on devices, over Gloo, and with the settings `more`. Returns, by run, the largest relative
        difference between its losses and those over Gloo. `again`: the name of the run with `more`, and whether its weights
        must equal those of the first run."""
        settings = ["cluster.workers=3", f"job.slots={slots}"]
        name, same = again
        digests = self.run_all(text, ("first", settings), ("gloo", [*settings, OVER_HOSTS]), (name, [*settings, *more]))
        self.assert_on_devices("first", 3)
        self.assertEqual(digests[name] == digests["first"], same, digests)
        gloo = self.losses("gloo")
        apart = {run: max(abs(a - b) / b for a, b in zip(self.losses(run), gloo, strict=True)) for run in digests}
        for run in digests:
            shutil.rmtree(self.path(run))
        recovery.say(f"losses beside those over Gloo: {apart['first']:.1e}, {name} {apart[name]:.1e}")
        return apart

    def test_three_workers_repeat_their_bits_and_a_wire_of_16_bits_brings_other_losses_that_are_near(self):
        for what in tier.some("losses", ("bits", "16 bits"), 1):
            with self.subTest(what):
                if what == "bits":
                    self.assertLess(self.losses_apart(GPT, 5, ("second", True))["first"], 1e-2)
                    continue
                apart = self.losses_apart(MLP, 3, ("narrow", False), "allreduce.wire=bf16")
                self.assertLess(apart["first"], 1e-5)
                self.assertLess(apart["narrow"], 0.1)

    def test_what_was_added_up_is_counted(self):
        with self.begin("cluster.workers=2", ENDLESS) as launch:
            launch.wait_for_line("running: ")
            recovery.poll(lambda: launch.closed or self.counters("worker-1").get(REDUCED, 0) > 15 * GRADIENT, "15 sums")
            now = self.counters("worker-1")
            recovery.say(f"{now[REDUCED]:.0f} bytes were added up, {now[SENT]:.0f} sent over Gloo")
            groups = {kind: now[f'capstan_worker_groups_total{{kind="{kind}"}}'] for kind in ("gloo", "nccl")}
            self.assertEqual(groups, {"gloo": 0, "nccl": 1})
            self.assertLess(now[SENT], VERSION + now[REDUCED] / 10)  # if it has read the first version, it passes it on
            recovery.stop(launch)

    # ---- kills, pauses, and failures of NCCL

    def disturb_and_await(self, launch, victim, number):
        """Sends the victim a signal while the whole group adds up on devices, and waits until a whole group does so again."""
        self.wait_until_counting(launch, BOTH, SENT)
        lines, groups = len(launch.lines), {name: self.seen(name, ON_DEVICES) for name in BOTH}
        (pid,) = self.disturb(launch, [victim], number)
        line = self.wait_for_line_after(launch, lines, "goes on from step", "goes back to")
        recovery.say(f"{victim}, signal {number}: {line}")
        if number == signal.SIGSTOP:
            recovery.kill_if_alive(pid, signal.SIGCONT)
        self.wait_until_counting(launch, BOTH, ON_DEVICES, since=groups)
        self.wait_until_counting(launch, BOTH, SENT)

    def test_a_worker_that_is_killed_or_stands_still_moves_no_bit(self):
        settings = [*PAIR, f"limits.lease={LEASE}"]
        for _ in range(recovery.CHAOS_RUNS):
            seed = recovery.chaos_seed()
            recovery.say(f"CAPSTAN_CHAOS_SEED={seed} repeats this run's choices")
            rng = random.Random(seed)
            victims = [(rng.choice(BOTH), signal.SIGKILL), (rng.choice(BOTH), signal.SIGSTOP)]
            rng.shuffle(victims)
            with self.begin(*settings, ENDLESS, "snapshot.every_steps=20") as launch:
                launch.wait_for_line("running: ")
                for victim, number in victims:
                    self.disturb_and_await(launch, victim, number)
                self.assert_stops_with_bits_of(launch, *IN_MODE_SYNC)
            self.assertNotIn(OVER_GLOO, self.logs())
            shutil.rmtree(self.path("run"))

    def test_a_collective_that_never_ends_ends_its_generation(self):
        """The next generation continues from the same step, again on devices."""
        settings = [*PAIR, f"limits.lease={LEASE}"]
        for fault, words in (("hang 40", f"did not add up a bucket in {LEASE} s after all had handed it over"),
                             ("error 40", "a peer is gone, as CAPSTAN_NCCL_FAULT asks")):
            with self.subTest(fault):
                self.set_variable(FAULT, fault)
                with self.begin(*settings) as launch:
                    line = launch.wait_for_line(words)
                    recovery.say(line)
                    self.assertRegex(line, r'"worker-[01]"')
                    launch.wait_for_line("the last that all had finished")
                    os.environ.pop(FAULT)
                    self.assert_ends_with_bits_of(launch, *IN_MODE_SYNC)
                self.assertNotIn(OVER_GLOO, self.logs())
                shutil.rmtree(self.path("run"))

    def test_devices_whose_collectives_never_end_are_given_up_for_gloo(self):
        settings = [*PAIR, f"limits.lease={LEASE}"]
        self.set_variable(FAULT, "hang 1")
        with self.begin(*settings) as launch:
            launch.wait()
            os.environ.pop(FAULT)
            self.assert_ends_with_bits_of(launch, *IN_MODE_SYNC)
        recovery.say(self.assert_each_says("ended 3 times before a step was done"))

    # ---- machines that have NCCL, and machines that lack it

    def test_a_member_without_nccl_has_all_take_gloo_and_says_why(self):
        ended = self.launched(program=self.with_a_worker_without_nccl())
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(recovery.digest_of(self.path("run")), recovery.undisturbed(MLP, ["cluster.workers=2", OVER_HOSTS]))
        recovery.say(self.assert_each_says('"worker-1": the emulated device has no NCCL unless CAPSTAN_EMULATED_NCCL'))

    def test_a_job_that_insists_on_nccl_is_refused_by_name(self):
        cases = ((self.with_a_worker_without_nccl(), {}, ["worker-1", "this worker cannot", "has no NCCL unless"]),
                 (None, {"CAPSTAN_EMULATED_UUID": "7"}, ["compute on one device", '"worker-0"', '"worker-1"']),
                 (None, {FAULT: "init"}, ["the forming of the group", "no way to form it"]))
        for program, variables, words in cases:
            with self.subTest(words[0]):
                for name, value in variables.items():
                    self.set_variable(name, value)
                ended = self.launched("allreduce.collective=nccl", program=program)
                for name in variables:
                    os.environ.pop(name)
                self.assertEqual(ended.returncode, 1, ended.stderr)
                said = self.assert_line_with(ended.stderr, 'collective = "nccl"', 'or set "auto"')
                for word in words:
                    self.assertIn(word, ended.stderr)
                recovery.say(said)
                # After the first worker has ended, the second may begin another group. But a refusal must not be reported
                # as a group that is given up.
                self.assertNotRegex(ended.stderr + ended.stdout, "is given up at step .*(NCCL|nccl|one device)")
                self.assert_nothing_runs("run")


if __name__ == "__main__":
    harness.main()
