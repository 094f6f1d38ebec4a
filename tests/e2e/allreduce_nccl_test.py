#!/usr/bin/python3
"""Mode allreduce where workers have devices that add up gradients among themselves: devices are emulated, and a library of
the tests stands in for NCCL.

With two workers the sums are those over Gloo, and with two slots those of mode sync, to the bit.
"""
import os
import re
import shutil
import signal

import harness
import recovery
from nccl_jobs import FAULT, MLP, NcclJobTest
from same_bits_test import GPT_JOB

GRADIENT = 4 * (300 * 300 + 300 * 256 + 256 * 7 + 300 + 256 + 7)
VERSION = 3 * GRADIENT  # weights, and what adamw keeps of each
GPT = GPT_JOB.replace('mode = "sync"', 'mode = "allreduce"').replace(
    "[worker]", '[worker]\ndevice = "emulated"\nprecision = "bf16"')
NCCL = re.compile(r"added up on the devices of (\d) workers, by NCCL 2\.28\.9")
OVER_GLOO = "added up over Gloo, because not all workers can on their devices: "


class AllReduceNcclTest(NcclJobTest):
    JOB = MLP

    def losses(self, run):
        return [step["loss"] for step in recovery.records(self.path(run))]

    def assert_on_devices(self, run, workers):
        said = NCCL.findall(self.logs(run))
        self.assertEqual(said, [str(workers)] * workers, self.logs(run))
        self.assertNotIn(OVER_GLOO, self.logs(run))

    def run_all(self, text, *cases):
        """Digests by name."""
        return {name: self.run_job(text, name, *settings) for name, settings in cases}

    # ---- undisturbed

    def test_two_workers_have_the_bits_of_gloo(self):
        for text, more in ((MLP, []), (GPT, []), (GPT, ["worker.precision=fp32"]), (MLP, ["job.global_batch=4", "job.slots=4"])):
            with self.subTest(more=more, gpt=text == GPT):
                settings = ["cluster.workers=2", *more]
                digests = self.run_all(text, ("gloo", [*settings, "allreduce.collective=gloo"]), ("nccl", settings),
                                       ("forced", [*settings, "allreduce.collective=nccl"]))
                self.assertEqual(len(set(digests.values())), 1, digests)
                for run in ("nccl", "forced"):
                    self.assert_on_devices(run, 2)
                self.assertNotRegex(self.logs("gloo"), NCCL)
                recovery.say(f"{'gpt' if text == GPT else 'mlp'} {more}: {digests['nccl'][:16]}")
                for run in digests:
                    shutil.rmtree(self.path(run))

    def test_two_slots_have_the_bits_of_mode_sync(self):
        settings = ["cluster.workers=2", "job.slots=2"]
        digests = self.run_all(MLP, ("sync", [*settings, "job.mode=sync"]), ("nccl", settings))
        self.assertEqual(digests["sync"], digests["nccl"])
        self.assert_on_devices("nccl", 2)

    def test_three_workers_repeat_their_bits(self):
        for text, slots in ((MLP, 3), (GPT, 5)):
            settings = ["cluster.workers=3", f"job.slots={slots}"]
            digests = self.run_all(text, ("first", settings), ("second", settings),
                                   ("gloo", [*settings, "allreduce.collective=gloo"]),
                                   ("narrow", [*settings, "allreduce.wire=bf16"]))
            self.assertEqual(digests["first"], digests["second"])
            self.assert_on_devices("first", 3)
            gloo = self.losses("gloo")
            far = {run: max(abs(a - b) / b for a, b in zip(self.losses(run), gloo, strict=True)) for run in ("first", "narrow")}
            recovery.say(f"losses beside those over Gloo: {far['first']:.1e}, with a wire of 16 bits {far['narrow']:.1e}")
            self.assertLess(far["first"], 1e-2 if text == GPT else 1e-5)
            self.assertNotEqual(digests["narrow"], digests["first"])
            self.assertLess(far["narrow"], 0.1)
            for run in digests:
                shutil.rmtree(self.path(run))

    def test_what_was_added_up_is_counted(self):
        with self.begin("cluster.workers=2", "job.steps=400") as launch:
            launch.wait_for_line("running: ")
            recovery.poll(lambda: recovery.count_records(self.path("run")) > 15 or launch.closed, "steps")
            reduced, sent = (self.counter_of_worker("worker-1", f"{name}_bytes_total") for name in ("reduced", "group_transmit"))
            recovery.say(f"{reduced:.0f} bytes were added up, {sent:.0f} sent over Gloo")
            self.assertGreater(reduced, 15 * GRADIENT)
            groups = {kind: self.counter_of_worker("worker-1", f'groups_total{{kind="{kind}"}}') for kind in ("gloo", "nccl")}
            self.assertEqual(groups, {"gloo": 0, "nccl": 1})
            self.assertLess(sent, VERSION + reduced / 10)  # who reads the first version from the shards passes it on

    # ---- kills, pauses, and what NCCL does not do

    def test_a_worker_that_is_killed_or_stands_still_moves_no_bit(self):
        settings = ["cluster.workers=2", "job.slots=2", "job.steps=200", "snapshot.every_steps=20"]
        with self.begin(*settings) as launch:
            launch.wait_for_line("running: ")
            for victim, number in (("worker-1", signal.SIGKILL), ("worker-0", signal.SIGKILL), ("worker-1", signal.SIGSTOP)):
                self.wait_for_steps(launch, 10)
                lines = len(launch.lines)
                self.assertTrue(recovery.kill_if_alive(recovery.pid_of(self.path("run"), victim), number), victim)
                self.wait_for_steps(launch, 10)
                said = [line for line in launch.lines[lines:] if "goes on from step" in line or "goes back to" in line]
                self.assertTrue(said, launch.output)
                recovery.say(f"{victim}, signal {number}: {said[-1]}")
            self.assert_calm_bits(launch, *settings)
        self.assertGreaterEqual(len(NCCL.findall(self.logs("run"))), 4, self.logs("run"))

    def test_a_collective_that_never_ends_ends_its_generation(self):
        """And the next one goes on where it was, with devices once more."""
        settings = ["cluster.workers=2", "job.slots=2", "limits.lease=1"]
        for fault, words in (("hang 40", "did not add up a bucket in 1 s after all had handed it over"),
                             ("error 40", "a peer is gone, as CAPSTAN_NCCL_FAULT asks")):
            with self.subTest(fault):
                self.set_variable(FAULT, fault)
                with self.begin(*settings) as launch:
                    line = launch.wait_for_line(words)
                    recovery.say(line)
                    self.assertRegex(line, r'"worker-[01]"')
                    launch.wait_for_line("the last that all had finished")
                    os.environ.pop(FAULT)
                    self.assert_calm_bits(launch, *settings)
                self.assertNotIn(OVER_GLOO, self.logs("run"))
                for run in ("run", "calm"):
                    shutil.rmtree(self.path(run))

    def test_devices_whose_collectives_never_end_are_given_up_for_gloo(self):
        settings = ["cluster.workers=2", "job.slots=2", "limits.lease=1"]
        self.set_variable(FAULT, "hang 1")
        with self.begin(*settings) as launch:
            self.assert_calm_bits(launch, *settings)
        said = [line for line in self.logs("run").splitlines() if OVER_GLOO in line]
        self.assertEqual(len(said), 2, self.logs("run"))
        self.assertIn("ended 3 times before a step was done", said[0])
        recovery.say(said[0])

    # ---- who has it, and who has not

    def test_a_member_without_nccl_has_all_take_gloo_and_says_why(self):
        gloo = self.run_job(MLP, "gloo", "cluster.workers=2", "allreduce.collective=gloo")
        ended = self.launched(program=self.with_a_worker_without_nccl())
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(recovery.digest_of(self.path("run")), gloo)
        said = [line for line in self.logs("run").splitlines() if OVER_GLOO in line]
        self.assertEqual(len(said), 2, self.logs("run"))
        self.assertIn('"worker-1": the emulated device has no NCCL unless CAPSTAN_EMULATED_NCCL', said[0])
        recovery.say(said[0])

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
                self.assertNotIn("another group", ended.stderr + ended.stdout)
                self.assert_nothing_runs("run")


if __name__ == "__main__":
    harness.main()
