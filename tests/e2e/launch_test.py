"""capstan launch: what a run leaves behind, how it ends, and that nothing outlives it."""
import os
import shutil
import signal
import unittest
import urllib.request

import harness


class LaunchTest(harness.JobTest):
    def run_job(self, job, *arguments, run="run"):
        with self.launch(job, *arguments, run=run) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
            return launch.output

    def scrape_until(self, address, wanted):
        """Some metrics are updated a few times a second only."""
        def scrape():
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=harness.DEADLINE) as answer:
                return wanted in answer.read().decode()
        harness.poll(scrape, f"{wanted} at {address}")

    def test_a_run_directory_holds_what_is_promised(self):
        output = self.run_job(self.job_file())
        steps = self.metrics()
        self.assertEqual([step["step"] for step in steps], list(range(10)))
        for step in steps:
            self.assertLessEqual({"step", "loss", "lr", "grad_norm", "samples", "seconds", "action", "generation"}, set(step))
            self.assertEqual((step["action"], step["generation"], step["samples"]), ("apply", 1, 12))
        self.assertEqual([step["step"] for step in steps if "validation_loss" in step], [0, 5, 9])
        names, _ = self.weights()
        self.assertEqual(len(names), 4)
        processes = {"coordinator", "server-0", "server-1", "worker-0", "worker-1"}
        self.assertEqual(set(self.pids()), processes)
        endpoints = self.endpoints()
        self.assertEqual(set(endpoints["metrics"]), processes)
        self.assertEqual(len(endpoints["shards"]), 2)
        self.assertIn("final.safetensors", output)
        self.assertIn("validation at step 9", output)
        self.assert_nothing_runs()

    def test_the_effective_job_file_gives_the_same_run_again(self):
        self.run_job(self.job_file(), "--set", "job.seed=7")
        self.run_job(self.path("run", "job.toml"), run="again")
        self.assertEqual(self.weights("run"), self.weights("again"))

    def test_every_process_serves_its_metrics(self):
        with self.launch(self.job_file(steps=1000000)) as launch:
            launch.wait_for_line("status and metrics: http://")
            launch.wait_for_line("running: ")
            launch.wait_for_line("step ")
            addresses = self.endpoints()["metrics"]
            for name, wanted in (("coordinator", "capstan_job_step "), ("server-0", "capstan_server_steps_total"),
                                 ("coordinator", 'capstan_cluster_members{role="shard",state="alive"} 2'),
                                 ("server-1", "capstan_build_info"), ("worker-0", "capstan_build_info"),
                                 ("worker-1", "capstan_worker_steps_total")):
                self.scrape_until(addresses[name], wanted)
            with urllib.request.urlopen(f"http://{self.endpoints()['metrics']['coordinator']}/api/v1/status",
                                        timeout=harness.DEADLINE) as answer:
                self.assertIn('"state": "running"', answer.read().decode())

    def test_ctrl_c_ends_everything(self):
        with self.launch(self.job_file(steps=1000000)) as launch:
            launch.wait_for_line("running: ")
            harness.kill(launch.pid, signal.SIGINT)
            self.assertEqual(launch.wait(), 130, launch.output)
            self.assertIn("stopped at step", launch.output)
        self.assert_nothing_runs()

    def test_a_terminal_that_closes_ends_everything(self):
        with self.launch(self.job_file(steps=1000000)) as launch:
            launch.wait_for_line("running: ")
            harness.kill(launch.pid, signal.SIGHUP)
            self.assertEqual(launch.wait(), 129, launch.output)
            self.assertIn("stopped at step", launch.output)
        self.assert_nothing_runs()

    def test_under_nohup_the_job_outlives_its_terminal(self):
        with harness.Process("/usr/bin/nohup", harness.program("capstan"), "launch", self.job_file(steps=1000000),
                             "--run-dir", self.path("run")) as launch:
            launch.wait_for_line("running: ")
            harness.kill(launch.pid, signal.SIGHUP)
            harness.kill(self.pids()["coordinator"], signal.SIGHUP)
            lines = len(self.metrics())
            harness.poll(lambda: len(self.metrics()) > lines, "a step after the signal")
            harness.kill(launch.pid, signal.SIGTERM)
            self.assertEqual(launch.wait(), 143, launch.output)

    def test_children_end_when_the_launcher_is_killed(self):
        with self.launch(self.job_file(steps=1000000)) as launch:
            launch.wait_for_line("running: ")
            pids = self.pids()
            harness.kill(pids["server-1"], signal.SIGSTOP)  # one that stands still, too
            harness.kill(launch.pid)
            launch.wait()  # its output ends when nobody holds it open
        harness.poll(lambda: all(harness.ended(pid) for pid in pids.values()), "the end of all children")

    def test_a_process_that_dies_ends_the_job_and_is_named(self):
        for victim in ("worker-1", "server-0", "coordinator"):
            with self.subTest(victim), self.launch(self.job_file(steps=1000000), "--max-restarts", "0",
                                                           run=victim) as launch:
                launch.wait_for_line("running: ")
                harness.kill(self.pids(victim)[victim])
                self.assertEqual(launch.wait(), 1, launch.output)
                self.assertIn(f"{victim} was killed by signal 9", launch.output)
                self.assertIn("last lines of its log", launch.output)
                self.assert_nothing_runs(victim)

    def test_a_stranger_that_knocks_does_not_end_a_running_job(self):
        job = self.job_file(steps=1000000)
        with self.launch(job) as launch:
            launch.wait_for_line("running: ")
            with harness.Process(harness.program("capstan-server"), job, "--index", "0", "--set", "job.seed=9", "--set",
                                 f"cluster.coordinator={self.endpoints()['coordinator']}", cwd=self.folder) as stranger:
                self.assertEqual(stranger.wait(), 1, stranger.output)
                self.assertIn("another job file", stranger.output)
            launch.wait_for_line("another job file")
            steps = len(self.metrics())
            harness.poll(lambda: len(self.metrics()) > steps, "a step after the stranger knocked")
            harness.kill(launch.pid, signal.SIGINT)
            self.assertEqual(launch.wait(), 130, launch.output)
        self.assert_nothing_runs()

    def test_a_coordinator_that_dies_as_soon_as_it_is_ready_is_named(self):
        os.mkdir(self.path("bin"))
        for name in ("capstan", "capstan-worker"):
            shutil.copy(harness.program(name), self.path("bin", name))
        server = self.write("bin/capstan-server", """#!/bin/sh
echo '{"event": "ready", "addresses": ["127.0.0.1:1"], "metrics": "127.0.0.1:2"}' >&3
echo last words
exit 5
""")
        os.chmod(server, 0o755)
        for run in range(5):  # the event and the end are seen together, or one after the other
            with harness.Process(self.path("bin", "capstan"), "launch", self.job_file(), "--run-dir",
                                 self.path(f"run{run}")) as launch:
                self.assertEqual(launch.wait(), 1, launch.output)
                self.assertRegex(launch.output, "(coordinator|server-[01]) exited with code 5; the last lines of its log")
            self.assert_nothing_runs(f"run{run}")

    def test_a_start_that_failed_leaves_the_run_directory_free(self):
        missing = self.path("nothing.csv")
        with self.launch(self.job_file(data=f'kind = "csv"\npath = "{missing}"')) as launch:
            self.assertEqual(launch.wait(), 1, launch.output)
        self.run_job(self.job_file())

    def test_a_run_directory_is_used_once_and_by_one(self):
        job = self.job_file(steps=1000000)
        with self.launch(job) as launch:
            launch.wait_for_line("running: ")
            with self.launch(job) as second:
                self.assertEqual(second.wait(), 2)
                self.assertIn("is in use by another job", second.output)
            launch.wait_for_line("step ")
            harness.kill(launch.pid, signal.SIGTERM)
            self.assertEqual(launch.wait(), 143, launch.output)
        with self.launch(job) as third:
            self.assertEqual(third.wait(), 2)
            self.assertIn("holds a run already", third.output)


if __name__ == "__main__":
    harness.main()
