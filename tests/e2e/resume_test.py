#!/usr/bin/python3
"""A run continues where it stopped: after Ctrl-C, after kill -9 of `launch`, with other numbers of processes; and never with
settings that would change the weights."""
import os
import signal
import socket
import time

import harness
import recovery


class ResumeTest(recovery.RecoveryTest):
    def interrupt(self, number=signal.SIGKILL, run="run", steps=120):
        """Launches a job, and sends the launcher a signal after `steps` steps and a snapshot. Returns the ended launcher."""
        with self.launch(self.job(), run=run) as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, steps, run)
            launch.wait_for_line("snapshot of version")
            harness.kill(launch.pid, number)
            launch.wait()
        return launch

    def assert_goes_on(self, launch, run="run"):
        """Checks that the resumed job does more steps, with the same bits. Returns how many steps it did again."""
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
        for key, value, reason in (("optimizer.eps", "0.5", "state on disk"), ("job.slots", "4", "every slot"),
                                   ("job.seed", "4", "random numbers"), ("job.global_batch", "15", "samples of every step"),
                                   ("model.hidden", "[300, 255]", "weights on disk"), ("data.samples", "400", "samples of every"),
                                   ("job.steps", "10", "already")):
            with self.subTest(key), self.resume("--set", f"{key}={value}") as launch:
                self.assertEqual(launch.wait(), 2, launch.output)
                self.assert_one_line_says(launch.output, key.split(".")[1], reason)
        self.assertEqual(recovery.count_records(self.path("run")), before)
        self.assert_resumes()  # and nothing was damaged by trying

    # ---- with other settings

    def test_a_run_is_trained_longer_with_the_bits_of_one_that_was_begun_so(self):
        with self.launch(self.job(60)) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        with self.resume("--set", "job.steps=120") as launch:
            self.assert_same_bits(launch, steps=120)
        self.assert_one_line_says(launch.output, "from here on: job.steps = 120 (it was 60)")
        self.assertEqual(recovery.count_records(self.path("run")), 120, "steps were done again")

    def test_rates_and_evaluation_may_change_on_the_way(self):
        launch = self.interrupt(signal.SIGINT, steps=40)
        done = recovery.count_records(self.path("run"))
        settings = recovery.options(["optimizer.lr=0.001", "job.eval_every=7", f"job.steps={done + 40}",
                                     "schedule.kind=cosine", "snapshot.every_steps=1000"])
        with self.resume(*settings) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        self.assert_one_line_says(launch.output, "from here on: optimizer.lr = 0.001 (it was 0.002)")
        self.assert_one_line_says(launch.output, "the schedule falls until the last step")
        self.assertNotIn("validation at step 0:", launch.output)  # of its former life
        steps = recovery.records(self.path("run"))
        self.assertEqual([step["step"] for step in steps], list(range(done + 40)))
        self.assertAlmostEqual(steps[done - 1]["lr"], 0.002)
        for step in steps[done:]:
            self.assertLess(step["lr"], 0.001)
            self.assertEqual("validation_loss" in step, step["step"] % 7 == 0 or step["step"] == done + 39)

    # ---- which run is continued, and on which port

    def test_without_a_directory_the_newest_run_is_gone_on_with(self):
        for name in ("first", "second"):
            job = self.write(f"{name}.toml", self.text(12).replace('"recovery"', f'"{name}"'))
            with harness.Process(harness.program("capstan"), "launch", job, cwd=self.folder) as launch:
                self.assertEqual(launch.wait(), 0, launch.output)
        for words, name in (((), "second"), (("first.toml",), "first")):
            command = [harness.program("capstan"), "launch", *words, "--resume", "--set", "job.steps=15"]
            with self.subTest(name), harness.Process(*command, cwd=self.folder) as launch:
                self.assertEqual(launch.wait(), 0, launch.output)
                self.assert_one_line_says(launch.output, f"going on with runs/{name}-", "the newest run")
                self.assertIn("done: 15 steps", launch.output)
        with harness.Process(harness.program("capstan"), "launch", "--resume", cwd="/") as launch:
            self.assertEqual(launch.wait(), 2, launch.output)
            self.assertIn("there is no run under runs/ here", launch.output)

    def test_the_coordinator_keeps_its_port(self):
        self.interrupt(steps=40)
        address = self.endpoints()["coordinator"]
        with self.resume() as launch:
            launch.wait_for_line("running: ")
            self.assertEqual(self.endpoints()["coordinator"], address)
            recovery.stop(launch)

    def test_a_port_that_is_taken_is_said_and_left(self):
        self.interrupt(signal.SIGINT, steps=40)
        address = self.endpoints()["coordinator"]
        host, port = address.split(":")
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of the former coordinator may linger
            other.bind((host, int(port)))
            other.listen()
            with self.resume() as launch:
                launch.wait_for_line(f"warning: another process listens at {address} now")
                launch.wait_for_line("running: ")
                self.assertNotEqual(self.endpoints()["coordinator"], address)
                recovery.stop(launch)

    # ---- runs that cannot be continued, or are done

    def test_a_directory_without_a_run_is_refused(self):
        self.job()
        for run, said in (("nothing", "there is no run directory"), (".", "holds no run")):
            with self.subTest(run), self.resume(run=run) as launch:
                self.assertIn(launch.wait(), (1, 2), launch.output)
                self.assert_one_line_says(launch.output, self.path(run), said)
        self.assertFalse(os.path.exists(self.path("nothing")))

    def test_a_finished_run_ends_at_once(self):
        steps = 100
        with self.launch(self.job(steps)) as launch:
            self.assert_same_bits(launch, steps=steps)
        written = os.stat(self.path("run", "final.safetensors")).st_mtime_ns
        began = time.monotonic()
        with self.resume() as launch:
            self.assert_same_bits(launch, steps=steps)
        self.assert_one_line_says(launch.output, f"was done already: {steps} steps", self.path("run", "final.safetensors"))
        self.assert_one_line_says(launch.output, "to train longer: ", "--set job.steps=")
        self.assertNotIn("running: ", launch.output)
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
