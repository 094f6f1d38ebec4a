#!/usr/bin/python3
"""Mode allreduce: workers add up gradients among themselves, and the job has what it has in mode sync: snapshots, resume,
other numbers of processes, and recovery from any kill.

The job has two slots: a sum of two has one order, so whoever computes, and in how many processes, its weights are those
of mode sync to the bit.
"""
import os
import random
import shutil
import signal
import urllib.request

import harness
import recovery

TWO_WORKERS = ["--set", "cluster.workers=2"]
ALL_REDUCE = [*TWO_WORKERS, "--set", "job.mode=allreduce"]


class AllReduceTest(recovery.RecoveryTest):
    STEPS, EVERY, LEASE = 300, 25, 2

    @classmethod
    def write_job(cls, folder):
        path = super().write_job(folder)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        assert "slots = 5" in text
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("slots = 5", "slots = 2").replace("workers = 3", "workers = 2"))
        return path

    def begin(self, *arguments, run="run"):
        return self.launch(self.job(), *ALL_REDUCE, *arguments, run=run)

    def losses(self, run):
        return [record["loss"] for record in recovery.records(self.path(run))]

    def counters(self, process, names, run):
        address = self.endpoints(run)["metrics"][process]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
            values = dict(line.rsplit(" ", 1) for line in page.read().decode().splitlines() if not line.startswith("#"))
        return [float(values[name]) for name in names]

    # ---- undisturbed

    def test_two_slots_have_the_bits_of_mode_sync(self):
        for number, arguments in enumerate(([], ["--set", "cluster.workers=1"], ["--set", "cluster.servers=3"],
                                            ["--set", "allreduce.bucket_mib=0.0625"], ["--set", "snapshot.every_seconds=0",
                                                                                       "--set", "snapshot.every_steps=0"])):
            with self.subTest(arguments), self.begin(*arguments, run=f"run{number}") as launch:
                self.assert_same_bits(launch, f"run{number}")

    def test_four_workers_repeat_their_bits_and_have_the_losses_of_mode_sync(self):
        settings = ["--set", "cluster.workers=4", "--set", "job.slots=4", "--set", "job.global_batch=18",
                    "--set", "job.steps=100"]
        runs = {"sync": ["job.mode=sync"], "first": ["job.mode=allreduce"], "second": ["job.mode=allreduce"],
                "narrow": ["job.mode=allreduce", "allreduce.wire=bf16"]}
        for run, more in runs.items():
            arguments = [word for setting in more for word in ("--set", setting)]
            with self.launch(self.job(), *settings, *arguments, run=run) as launch:
                self.assertEqual(launch.wait(), 0, launch.output)
        self.assertEqual(recovery.digest_of(self.path("first")), recovery.digest_of(self.path("second")))
        sync, ring = self.losses("sync"), self.losses("first")
        differences = [abs(a - b) / a for a, b in zip(sync, ring)]
        recovery.say(f"losses of allreduce beside sync: {max(differences[:10]):.1e} in 10 steps, {max(differences):.1e} in 100")
        self.assertLess(max(differences[:10]), 1e-5)
        self.assertLess(max(differences), 1e-4)
        narrow = max(abs(a - b) / a for a, b in zip(sync, self.losses("narrow")))
        self.assertGreater(narrow, max(differences), "numbers of 16 bits on the wire make no difference")
        self.assertLess(narrow, 0.05)

    def test_a_worker_sends_no_more_than_its_share(self):
        """2 (P - 1) / P of the gradient's bytes, by the worker's own counters."""
        names = ("capstan_worker_reduced_bytes_total", "capstan_worker_group_transmit_bytes_total")
        for workers in (2, 4):
            run = f"run{workers}"
            with self.begin("--set", f"cluster.workers={workers}", "--set", f"job.slots={workers}", run=run) as launch:
                launch.wait_for_line("running: ")
                begun = None
                for _ in range(2):
                    self.wait_for_steps(launch, 60, run)
                    now = self.counters("worker-1", names, run)
                    if begun is None:
                        begun = now
                reduced, sent = (after - before for before, after in zip(begun, now))
                ratio, share = sent / reduced, 2 * (workers - 1) / workers
                recovery.say(f"{workers} workers: {ratio:.4f} of the gradient's bytes sent by each, wanted {share}")
                self.assertAlmostEqual(ratio / share, 1, delta=0.02)
                self.assertEqual(launch.wait(), 0, launch.output)

    # ---- kills and pauses

    def kill(self, launch, names, number=signal.SIGKILL):
        self.wait_for_steps(launch, 15)
        for name in names:
            self.assertTrue(recovery.kill_if_alive(recovery.pid_of(self.path("run"), name), number), name)

    def test_whoever_is_killed_the_bits_are_the_same(self):
        with self.begin("--max-restarts", "100") as launch:
            launch.wait_for_line("running: ")
            for names in (["worker-1"], ["worker-0"], ["coordinator"], ["server-1"], ["worker-0", "worker-1"],
                          ["coordinator", "worker-1"], ["server-0", "worker-0"]):
                lines = len(launch.lines)
                self.kill(launch, names)
                self.wait_for_steps(launch, 5)
                said = [line for line in launch.lines[lines:]
                        if any(words in line for words in ("goes on from step", "goes back to version", "starts from"))]
                self.assertTrue(said, launch.output)
                recovery.say(f"{' '.join(names)} killed: {said[-1]}")
            self.assert_same_bits(launch)
        self.assert_nothing_runs()

    def test_random_kills(self):
        seed = recovery.seed_of_today()
        recovery.say(f"CAPSTAN_CHAOS_SEED={seed} repeats this run's choices")
        rng = random.Random(seed)
        with self.begin("--max-restarts", "1000") as launch:
            launch.wait_for_line("running: ")
            for _ in range(int(os.environ.get("CAPSTAN_CHAOS_KILLS", "8"))):
                self.wait_for_steps(launch, rng.randint(1, 20))
                name = rng.choice(recovery.names_in(self.path("run")))
                recovery.kill_if_alive(recovery.pid_of(self.path("run"), name), signal.SIGKILL)
            self.assert_same_bits(launch)
        self.assert_nothing_runs()

    def test_a_worker_that_stands_still_is_named_and_left_behind(self):
        with self.begin() as launch:
            launch.wait_for_line("running: ")
            self.kill(launch, ["worker-1"], signal.SIGSTOP)
            line = launch.wait_for_line("\"worker-1\" has been silent")
            recovery.say(line)
            launch.wait_for_line("the last that all had finished")
            self.assert_same_bits(launch)
        self.assert_nothing_runs()

    def test_a_group_without_its_version_goes_back_and_says_so(self):
        with self.begin("--max-restarts", "100", "--set", "snapshot.every_steps=100") as launch:
            launch.wait_for_line("running: ")
            launch.wait_for_line("snapshot of version")
            self.kill(launch, ["worker-0", "worker-1"])
            line = launch.wait_for_line("goes back to version")
            self.assertIn("no worker has version", line)
            recovery.say(line)
            self.assert_same_bits(launch)
        self.assert_nothing_runs()

    # ---- resumed, in either mode

    def interrupt(self, *arguments, number=signal.SIGKILL):
        with self.launch(self.job(), *arguments) as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 60)
            launch.wait_for_line("snapshot of version")
            harness.kill(launch.pid, number)
            launch.wait()
        self.assertLess(recovery.count_records(self.path("run")), self.STEPS, "an invalid run: it was done before")
        return launch

    def test_a_job_changes_its_mode_when_it_is_resumed(self):
        for first, second in (("allreduce", "sync"), ("sync", "allreduce"), ("allreduce", "allreduce")):
            with self.subTest(first=first, second=second):
                shutil.rmtree(self.path("run"), ignore_errors=True)
                self.interrupt(*TWO_WORKERS, "--set", f"job.mode={first}")
                with self.resume("--set", f"job.mode={second}", "--set", "cluster.servers=1") as launch:
                    self.assert_same_bits(launch)

    def test_ctrl_c_keeps_the_step_it_stopped_at(self):
        launch = self.interrupt(*ALL_REDUCE, number=signal.SIGINT)
        self.assertEqual(launch.wait(), 130, launch.output)
        self.assertRegex(launch.output, r"stopped at step \d+")
        done = recovery.count_records(self.path("run"))
        with self.resume() as resumed:
            self.assert_same_bits(resumed)
        self.assertEqual(recovery.count_records(self.path("run")), self.STEPS, "steps were done again")
        recovery.say(f"Ctrl-C after {done} steps, resumed without doing one again")


if __name__ == "__main__":
    harness.main()
