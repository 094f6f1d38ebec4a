#!/usr/bin/python3
"""A run goes on where it stopped: after Ctrl-C, after kill -9 of `launch`, with other numbers of processes; and never with
numbers that would change the weights."""
import os
import signal
import time

import harness
import recovery


class ResumeTest(recovery.RecoveryTest):
    def interrupt(self, number=signal.SIGKILL, run="run", steps=120):
        """A run of which about `steps` steps and a snapshot exist when its launcher gets the signal. The launcher, ended."""
        with self.launch(self.job(), run=run) as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, steps, run)
            launch.wait_for_line("snapshot of version")
            harness.kill(launch.pid, number)
            launch.wait()
        return launch

    def assert_goes_on(self, launch, run="run"):
        """It does more than was done before it was resumed. The number of steps that were done again."""
        first = {record["step"] for record in recovery.records(self.path(run))}
        launch.wait_for_line("running: ")
        recovery.poll(lambda: launch.closed or recovery.records(self.path(run))[-1]["step"] > max(first) + 20, "more steps")
        self.assert_stops_with_same_bits(launch, run)
        self.assert_nothing_runs(run)
        replayed = [record for record in recovery.records(self.path(run)) if record["generation"] > 1]
        self.assertGreater(replayed[0]["step"], 0, "it began again from its first step")
        return len([record for record in replayed if record["step"] in first])

    def assert_resumes(self, *arguments, run="run"):
        with self.resume(*arguments, run=run) as launch:
            return self.assert_goes_on(launch, run)

    # ---- stopped and killed

    def test_a_killed_launch_is_resumed_at_once(self):
        for round_number in range(recovery.CHAOS_RUNS):
            run = f"run{round_number}"
            self.interrupt(run=run, steps=60 + 50 * round_number)
            replayed = self.assert_resumes(run=run)
            recovery.say(f"launch killed, resumed at once: {replayed} steps done again")

    def test_a_killed_launch_is_resumed_while_old_processes_live(self):
        with self.launch(self.job()) as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 60)
            launch.wait_for_line("snapshot of version")
            harness.kill(launch.pid)
            launch.child.wait()  # its children may not have ended
            self.assert_resumes()

    def test_it_can_be_killed_and_resumed_again_and_again(self):
        self.interrupt(steps=30)
        for _ in range(recovery.CHAOS_RUNS):
            with self.resume() as launch:
                launch.wait_for_line("running: ")
                self.wait_for_steps(launch, 40)
                harness.kill(launch.pid)
        self.assert_resumes()

    def test_one_that_is_killed_before_its_first_snapshot_begins_with_its_first_step(self):
        with self.launch(self.job(), "--set", "snapshot.every_steps=1000000") as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 30)
            harness.kill(launch.pid)
        with self.resume() as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 30)
            self.assert_stops_with_same_bits(launch)

    def test_ctrl_c_says_where_it_stopped_and_how_to_go_on(self):
        launch = self.interrupt(signal.SIGINT)
        self.assertEqual(launch.wait(), 130, launch.output)
        self.assertRegex(launch.output, r"stopped at step \d+")
        self.assertIn("--resume", launch.output)
        done = recovery.count_records(self.path("run"))
        self.assertEqual(self.assert_resumes(), 0, "steps were done again although there was a last snapshot")
        steps = [record["step"] for record in recovery.records(self.path("run"))]
        self.assertEqual(steps, list(range(len(steps))))
        recovery.say(f"Ctrl-C after {done} steps, resumed without doing one again")

    # ---- with other numbers

    def test_other_numbers_of_processes_do_not_matter(self):
        for number, settings in enumerate((("cluster.servers=1",), ("cluster.servers=3", "cluster.workers=1"),
                                           ("cluster.servers=1", "cluster.shards_per_server=4", "cluster.workers=5"))):
            with self.subTest(settings):
                run = f"run{number}"
                self.interrupt(run=run, steps=60)
                arguments = [word for setting in settings for word in ("--set", setting)]
                self.assert_resumes(*arguments, run=run)

    def test_the_number_of_servers_may_change_twice(self):
        self.interrupt(steps=40)
        for servers in (3, 1):
            with self.resume("--set", f"cluster.servers={servers}") as launch:
                launch.wait_for_line("running: ")
                self.wait_for_steps(launch, 60)
                harness.kill(launch.pid)
        self.assert_resumes("--set", "cluster.servers=2")

    def test_what_would_change_the_weights_is_refused_by_name(self):
        self.interrupt(steps=40)
        before = recovery.count_records(self.path("run"))
        for key, value in (("optimizer.lr", "0.5"), ("job.slots", "4"), ("job.seed", "4"), ("job.global_batch", "15"),
                           ("model.hidden", "[300, 255]"), ("data.samples", "400")):
            with self.subTest(key), self.resume("--set", f"{key}={value}") as launch:
                self.assertIn(launch.wait(), (1, 2), launch.output)
                self.assert_one_line_says(launch.output, key.split(".")[1])
        self.assertEqual(recovery.count_records(self.path("run")), before)
        self.assert_resumes()  # and nothing was damaged by trying

    # ---- where there is nothing to do

    def test_a_directory_without_a_run_is_refused(self):
        self.job()
        for run in ("nothing", "."):
            with self.subTest(run), self.resume(run=run) as launch:
                self.assertIn(launch.wait(), (1, 2), launch.output)
                self.assert_one_line_says(launch.output, self.path(run), "holds no run")
        self.assertFalse(os.path.exists(self.path("nothing")))

    def test_a_finished_run_ends_at_once(self):
        steps = 100
        with self.launch(self.job(steps)) as launch:
            self.assert_same_bits(launch, steps=steps)
        written = os.stat(self.path("run", "final.safetensors")).st_mtime_ns
        began = time.monotonic()
        with self.resume() as launch:
            self.assert_same_bits(launch, steps=steps)
        recovery.say(f"a finished run resumed: ended after {time.monotonic() - began:.2f} s, weights "
                     + ("as they were" if os.stat(self.path("run", "final.safetensors")).st_mtime_ns == written
                        else "written again"))
        self.assertEqual(recovery.count_records(self.path("run")), steps, "steps were done again")

    def test_a_run_is_not_begun_over_another(self):
        self.interrupt(steps=40)
        with self.launch(self.job()) as launch:
            self.assertEqual(launch.wait(), 2, launch.output)
            self.assertIn("--resume", launch.output)
        self.assert_resumes()


if __name__ == "__main__":
    harness.main()
