#!/usr/bin/python3
"""Mode allreduce: workers add up gradients among themselves, with everything that mode sync has: snapshots, resume, other
numbers of processes, and recovery from any kill.

The job has two slots: a sum of two has one order, so its weights equal those of mode sync to the bit, whichever and
however many processes compute.
"""
import os
import random
import signal

import harness
import recovery
from collective_jobs import REDUCED, SENT, CollectiveJob

BOTH = ("worker-0", "worker-1")
TWO_WORKERS = ["--set", "cluster.workers=2"]
ALL_REDUCE = [*TWO_WORKERS, "--set", "job.mode=allreduce"]


class AllReduceTest(CollectiveJob, recovery.RecoveryTest):
    @classmethod
    def text(cls, steps):
        """The job file, also of the job in mode sync that the others are compared with."""
        text = super().text(steps)
        assert "slots = 5" in text and "workers = 3" in text
        return text.replace("slots = 5", "slots = 2").replace("workers = 3", "workers = 2")

    def begin(self, *arguments, run="run", steps=None):
        return self.launch(self.job(steps), *ALL_REDUCE, *arguments, run=run)

    def losses(self, run):
        return [record["loss"] for record in recovery.records(self.path(run))]

    def wait_until_whole(self, launch, run="run"):
        """Waits until the job has recorded three more steps and both workers send each other what they add up. After a kill at
        most two steps that were in progress are recorded, so a third one shows that the job has recovered."""
        self.wait_for_steps(launch, 3, run)
        self.wait_until_counting(launch, BOTH, SENT, run)

    # ---- undisturbed

    def test_two_slots_have_the_bits_of_mode_sync(self):
        for run, settings in (("one", ["cluster.workers=1"]),
                              ("two", ["cluster.servers=3", "allreduce.bucket_mib=0.0625", "snapshot.every_seconds=0",
                                       "snapshot.every_steps=0"])):
            with self.subTest(settings), self.begin(*recovery.options(settings), run=run, steps=150) as launch:
                self.assert_same_bits(launch, run, 150)

    def test_a_large_first_layer_in_parts_has_the_bits_of_the_whole(self):
        """One thread computes the layer's gradient in parts, and each is added up at once; eight threads compute it whole."""
        large = ["data.features=784", "model.hidden=[1024]", "allreduce.bucket_mib=1"]
        digests = set()
        for run, more in (("sync", ["job.mode=sync", "worker.threads=8"]), ("parts", ["worker.threads=1"]),
                          ("whole", ["worker.threads=8"])):
            with self.begin(*recovery.options(large + more), run=run, steps=20) as launch:
                self.assertEqual(launch.wait(), 0, launch.output)
            digests.add(recovery.digest_of(self.path(run)))
        self.assertEqual(len(digests), 1)

    def test_four_workers_repeat_their_bits_and_have_the_losses_of_mode_sync(self):
        settings = ["cluster.workers=4", "job.slots=4", "job.global_batch=18"]
        runs = {"sync": ["job.mode=sync"], "first": ["job.mode=allreduce"], "second": ["job.mode=allreduce"],
                "narrow": ["job.mode=allreduce", "allreduce.wire=bf16"]}
        for run, more in runs.items():
            with self.launch(self.job(100), *recovery.options(settings + more), run=run) as launch:
                self.assertEqual(launch.wait(), 0, launch.output)
        self.assertEqual(recovery.digest_of(self.path("first")), recovery.digest_of(self.path("second")))
        sync, ring = self.losses("sync"), self.losses("first")
        differences = [abs(a - b) / a for a, b in zip(sync, ring, strict=True)]
        recovery.say(f"losses of allreduce beside sync: {max(differences[:10]):.1e} in 10 steps, {max(differences):.1e} in 100")
        self.assertLess(max(differences[:10]), 1e-5)
        self.assertLess(max(differences), 1e-4)
        narrow = max(abs(a - b) / a for a, b in zip(sync, self.losses("narrow"), strict=True))
        self.assertGreater(narrow, max(differences), "numbers of 16 bits on the wire make no difference")
        self.assertLess(narrow, 0.05)

    def test_a_worker_sends_no_more_than_its_share(self):
        """By its own counters, one of P workers sends 2 (P - 1) / P times the gradient's bytes."""
        for workers in (2, 4):
            run, settings = f"run{workers}", [f"cluster.workers={workers}", f"job.slots={workers}"]
            with self.begin(*recovery.options(settings), run=run) as launch:
                launch.wait_for_line("running: ")
                self.wait_until_counting(launch, ["worker-1"], SENT, run)
                before = self.counters("worker-1", run)
                self.wait_for_steps(launch, 100, run)
                after = self.counters("worker-1", run)
                recovery.stop(launch)
            ratio, share = (after[SENT] - before[SENT]) / (after[REDUCED] - before[REDUCED]), 2 * (workers - 1) / workers
            recovery.say(f"{workers} workers: {ratio:.4f} of the gradient's bytes sent by each, wanted {share}")
            self.assertAlmostEqual(ratio / share, 1, delta=0.02)

    # ---- kills and pauses

    def kill(self, launch, names, number=signal.SIGKILL):
        """Sends a signal once the group is whole and has done some steps. Returns the process ids, and the number of lines that
        the job had printed before."""
        self.wait_until_whole(launch)
        self.wait_for_steps(launch, 5)
        lines = len(launch.lines)
        return self.disturb(launch, names, number), lines

    def test_whoever_is_killed_the_bits_are_the_same(self):
        with self.begin("--max-restarts", "100") as launch:
            launch.wait_for_line("running: ")
            for names in (["worker-1"], ["worker-0"], ["coordinator"], ["server-1"], ["worker-0", "worker-1"],
                          ["coordinator", "worker-1"], ["server-0", "worker-0"]):
                _, lines = self.kill(launch, names)
                line = self.wait_for_line_after(launch, lines, "goes on from step", "goes back to version", "starts from")
                recovery.say(f"{' '.join(names)} killed: {line}")
            self.wait_until_whole(launch)
            self.assert_stops_with_same_bits(launch)
        self.assert_nothing_runs()

    def test_random_kills(self):
        for number in range(recovery.CHAOS_RUNS):
            run = f"run{number}"
            seed = recovery.chaos_seed()
            recovery.say(f"CAPSTAN_CHAOS_SEED={seed} repeats this run's choices")
            rng = random.Random(seed)
            with self.begin("--max-restarts", "1000", run=run) as launch:
                launch.wait_for_line("running: ")
                for _ in range(int(os.environ.get("CAPSTAN_CHAOS_KILLS", "8"))):
                    self.wait_for_steps(launch, rng.randint(1, 20), run)
                    name = rng.choice(recovery.names_in(self.path(run)))
                    recovery.kill_if_alive(recovery.pid_of(self.path(run), name), signal.SIGKILL)
                self.wait_until_whole(launch, run)
                self.assert_stops_with_same_bits(launch, run)
            self.assert_nothing_runs(run)

    def test_a_worker_that_stands_still_is_named_and_left_behind(self):
        with self.begin() as launch:
            launch.wait_for_line("running: ")
            (pid,), lines = self.kill(launch, ["worker-1"], signal.SIGSTOP)
            recovery.say(self.wait_for_line_after(launch, lines, '"worker-1" has been silent'))
            self.wait_for_line_after(launch, lines, "the last that all had finished")
            self.wait_for_steps(launch, 20)
            self.assertTrue(recovery.kill_if_alive(pid, signal.SIGCONT))
            self.wait_until_whole(launch)
            self.assert_stops_with_same_bits(launch)
        self.assert_nothing_runs()

    def kill_between_snapshots(self, launch, every):
        """Kills both workers when only they have the newest version. Stops them first, so that no step is done meanwhile."""
        self.wait_until_whole(launch)
        while True:
            self.disturb(launch, BOTH, signal.SIGSTOP)
            if 0 < recovery.count_records(self.path("run")) % every < every - 2:  # a step may be about to be committed
                break
            self.disturb(launch, BOTH, signal.SIGCONT)
            self.wait_for_steps(launch, 1)
        self.disturb(launch, BOTH, signal.SIGKILL)

    def test_a_group_without_its_version_goes_back_and_says_so(self):
        with self.begin("--max-restarts", "100", "--set", "snapshot.every_steps=100") as launch:
            launch.wait_for_line("running: ")
            launch.wait_for_line("snapshot of version")
            self.kill_between_snapshots(launch, 100)
            line = launch.wait_for_line("goes back to version")
            self.assertIn("no worker has version", line)
            recovery.say(line)
            self.wait_until_whole(launch)
            self.assert_stops_with_same_bits(launch)
        self.assert_nothing_runs()

    # ---- resumed, in either mode

    def await_snapshot(self, launch):
        """Waits until the launched job has done some steps and taken a snapshot."""
        launch.wait_for_line("running: ")
        self.wait_for_steps(launch, 20)
        launch.wait_for_line("snapshot of version")

    def test_a_job_changes_its_mode_when_it_is_resumed(self):
        with self.launch(self.job(), *TWO_WORKERS, "--set", "job.mode=allreduce") as launch:
            self.await_snapshot(launch)
        for mode, servers in (("sync", 1), ("allreduce", 1)):
            with self.resume(*recovery.options([f"job.mode={mode}", f"cluster.servers={servers}"])) as launch:
                self.await_snapshot(launch)
                if mode == "allreduce":
                    self.assert_stops_with_same_bits(launch)

    def test_ctrl_c_keeps_the_step_it_stopped_at(self):
        with self.begin() as launch:
            self.await_snapshot(launch)
            self.wait_until_whole(launch)
            done = recovery.stop(launch)
        self.assertEqual(recovery.count_records(self.path("run")), done)
        with self.resume() as resumed:
            resumed.wait_for_line("running: ")
            self.wait_for_steps(resumed, 20)
            steps = self.assert_stops_with_same_bits(resumed)
        self.assertEqual(recovery.count_records(self.path("run")), steps, "steps were done again")
        recovery.say(f"Ctrl-C after {done} steps, resumed without doing one again")


if __name__ == "__main__":
    harness.main()
