#!/usr/bin/python3
"""acknowledge = "durable": kill -9 of servers, and of everything, loses no acknowledged push.

The coordinator's count of steps never falls. It reports lost pushes only if the loss is inevitable: when logs are missing
or the number of servers changes.
"""
import os
import re
import shutil
import signal
import urllib.request

import harness
import recovery

JOB = """\
[job]
name = "durable"
mode = "{mode}"
acknowledge = "durable"
steps = {steps}
seed = 3
global_batch = 20
slots = 4

[model]
kind = "mlp"
hidden = [64]

""" + recovery.LEARNING + """
[snapshot]
every_steps = 40

[limits]
join = {join}
lease = {lease}
report = 1
stall = {stall}
"""

LOST = "acknowledged pushes after version"
# The number of pushes of all slots together before all servers are killed. A nightly run has time for many.
PUSHES = 2000 if recovery.CHAOS_RUNS == 1 else 100000
SERVERS = ("server-0", "server-1")


class DurableTest(harness.JobTest):
    def job(self, mode="async", steps=harness.ENDLESS):
        return self.write("job.toml", JOB.format(mode=mode, steps=steps, join=harness.patient(60),
                                                 lease=harness.patient(3), stall=recovery.STALL))

    def resume(self, *arguments):
        return harness.Process(harness.program("capstan"), "launch", "--resume", "--run-dir", self.path("run"), *arguments,
                               cwd=self.folder)

    def wait_for_steps(self, launch, count):
        recovery.wait_for_steps(launch, self.path("run"), count)

    def kill(self, *names):
        for name in names:
            recovery.wait_until_alive(self.path("run"), name)
        for name in names:
            self.assertTrue(recovery.kill_if_alive(recovery.pid_of(self.path("run"), name), signal.SIGKILL), name)

    def wait_for_generation(self, launch, generation):
        recovery.poll(lambda: launch.closed or any(
            record["generation"] >= generation for record in recovery.records(self.path("run"))),
                      f"a step of generation {generation}")
        self.assertFalse(launch.closed, f"it ended early:\n{launch.output}")

    def stop_whole(self, launch):
        """Stops the job. Checks that no step is missing in its records, and returns the steps of the records."""
        self.wait_for_steps(launch, 20)
        recovery.poll(lambda: launch.closed or recovery.has_caught_up(self.path("run")), "the steps that were counted before")
        count = recovery.stop(launch)
        steps = [record["step"] for record in self.metrics()]
        self.assertEqual(sorted(set(steps)), list(range(count)))
        return steps

    def lose_servers(self, mode):
        with self.launch(self.job(mode), "--max-restarts", "100") as launch:
            launch.wait_for_line("running: ")
            generation = 1
            for victims in (["server-0"], ["server-1"], ["server-0", "server-1"], ["server-1"], ["server-0"]):
                self.wait_for_steps(launch, 30)
                self.kill(*victims)
                generation += 1
                self.wait_for_generation(launch, generation)
            steps = self.stop_whole(launch)
            self.assertNotIn(LOST, launch.output)
            self.assertEqual(launch.output.count(" starts from "), 1, launch.output)
            self.assertIn("goes on where it was", launch.output)
            self.assertIn("of its log", launch.output)
        self.assert_nothing_runs()
        self.assertEqual(steps, list(range(len(steps))), "the count of steps fell")

    def logged(self, server):
        """Returns how many records this server's shard has acknowledged."""
        address = self.endpoints()["metrics"][server]
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=harness.DEADLINE) as answer:
            (line,) = re.findall(r"^capstan_server_log_records_total.* ([0-9.e+]+)$", answer.read().decode(), re.MULTILINE)
            return int(float(line))

    def test_a_slow_worker_and_all_servers_killed_lose_no_acknowledged_push(self):
        """The other workers do not wait for the slow one, so they are many steps ahead of it when the servers are killed."""
        with self.launch(self.job(), "--max-restarts", "100", "--set", "job.slots=12") as launch:
            launch.wait_for_line("running: ")
            slow = self.pids()["worker-0"]
            with harness.slowed(lambda: [slow], times=10):
                recovery.poll(lambda: launch.closed or sum(map(self.logged, SERVERS)) >= 2 * PUSHES,
                              f"{PUSHES} pushes", seconds=harness.DEADLINE + harness.patient(PUSHES / 100))
                lines = len(launch.lines)
                before = [self.logged(server) for server in SERVERS]
                self.kill(*SERVERS)
                after = [int(launch.wait_for_line(f"shard {shard} goes on after record", since=lines).split(" record ")[1]
                             .split()[0]) for shard in range(len(SERVERS))]
            recovery.say(f"acknowledged before all servers were killed: {before}, found again: {after}")
            for acknowledged, found in zip(before, after):
                self.assertGreaterEqual(found, acknowledged)
            self.wait_for_generation(launch, 2)
            self.stop_whole(launch)
            self.assertNotIn(LOST, launch.output)

    def test_lost_servers_take_nothing_back(self):
        self.lose_servers("async")

    def test_lost_servers_take_nothing_back_bounded(self):
        self.lose_servers("bounded")

    def test_everything_lost_takes_back_the_count_of_steps_and_no_push(self):
        with self.launch(self.job(), "--max-restarts", "100") as launch:
            launch.wait_for_line("running: ")
            for _ in range(3):
                self.wait_for_steps(launch, 60)
                self.kill("server-0", "coordinator", "worker-0", "server-1")
            self.stop_whole(launch)
            self.assertNotIn(LOST, launch.output)
            self.assertEqual(launch.output.count(" starts from "), 1, launch.output)

    def test_kills_until_a_job_ends_by_itself(self):
        steps = 200
        with self.launch(self.job(steps=steps), "--max-restarts", "1000") as launch:
            recovery.kill_until_done(launch, self.path("run"), steps)
            self.assertEqual(launch.wait(), 0, launch.output)
            self.assertNotIn(LOST, launch.output)
        self.assertEqual({record["step"] for record in self.metrics()}, set(range(steps)))

    def test_a_job_that_was_killed_with_its_launcher_goes_on(self):
        with self.launch(self.job()) as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 100)
            harness.kill(launch.pid)
            for name in recovery.names_in(self.path("run")):
                recovery.kill_if_alive(recovery.pid_of(self.path("run"), name), signal.SIGKILL)
        with self.resume() as launch:
            self.stop_whole(launch)
            self.assertNotIn(LOST, launch.output)
            self.assertIn("goes on where it was", launch.output)

    def stop_after_some_steps(self):
        with self.launch(self.job()) as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 100)
            harness.kill(launch.pid, signal.SIGINT)
            launch.wait()

    def test_another_number_of_servers_goes_back_and_says_so(self):
        self.stop_after_some_steps()
        with self.resume("--set", "cluster.servers=3") as launch:
            self.assertEqual(launch.wait(), 1, launch.output)
            self.assertIn("would be lost: the logs are of 2 shards, and there are 3 now", launch.output)
        with self.resume("--accept-rollback", "--set", "cluster.servers=3") as launch:
            self.stop_whole(launch)
            launch.wait_for_line(LOST)
            self.assertIn("the logs are of 2 shards, and there are 3 now", launch.output)

    def test_a_log_that_is_gone_goes_back_and_says_so(self):
        self.stop_after_some_steps()
        shutil.rmtree(os.path.join(recovery.snapshots_in(self.path("run"))[1], "pushes"))
        with self.resume() as launch:
            self.assertEqual(launch.wait(), 1, launch.output)
            self.assertIn("would be lost: server 1: there is no log here", launch.output)
        with self.resume("--accept-rollback") as launch:
            self.stop_whole(launch)
            line = launch.wait_for_line(LOST)
            self.assertIn("are lost: server 1: there is no log here", line)


if __name__ == "__main__":
    harness.main()
