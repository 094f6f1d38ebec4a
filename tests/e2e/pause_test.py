#!/usr/bin/python3
"""Processes that pause for longer than their lease, and continue or do not: the same bits."""
import signal
import time

import harness
import recovery

# The processes that stand still, and the warnings to wait for. For workers a warning comes after a lease, for servers
# and the coordinator after 3 s.
PAUSES = ((["worker-1"], ['"worker-1" has been silent']), (["server-0"], ["for server 0"]),
          (["coordinator"], ["for the coordinator (process"]),
          (["worker-0", "worker-1", "worker-2"], [f'"worker-{index}" has been silent' for index in range(3)]))


class PauseTest(recovery.RecoveryTest):
    LEASE = harness.patient(1)

    def pause(self, launch, names, warnings):
        """Pauses processes until all these warnings have been printed, then lets them continue."""
        self.wait_for_steps(launch, 15)
        lines, pids = len(launch.lines), [self.pids()[name] for name in names]
        for name in names:
            recovery.poll(lambda: self.takes_part(launch, name), f"{name} taking part")
        for pid in pids:
            harness.kill(pid, signal.SIGSTOP)
        for warning in warnings:
            said = launch.wait_for_line(warning, since=lines)
            self.assertIn("warning: ", said)
        for pid in pids:
            harness.kill(pid, signal.SIGCONT)
        recovery.say(f"{' '.join(names)} stood still: {said[:150]}")

    def takes_part(self, launch, name):
        """Whether the process takes part now. On a busy machine a worker may lose its lease and join again."""
        count = lambda words: launch.output.count(f'"{name}" {words}')
        return not name.startswith("worker-") or count("joined") > count("has been silent")

    def test_each_role_stands_still_for_longer_than_a_lease(self):
        with self.launch(self.job()) as launch:
            launch.wait_for_line("running: ")
            for names, warnings in PAUSES:
                self.pause(launch, names, warnings)
                self.wait_for_steps(launch, 1)
            self.wait_for_steps(launch, 15)
            self.assert_stops_with_same_bits(launch)
            self.assertIn("its slots move", launch.output)
        self.assert_nothing_runs()

    def test_a_server_that_stood_still_in_the_middle_of_a_recovery(self):
        with self.launch(self.job()) as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 60)
            pid = self.pids()["server-1"]
            harness.kill(self.pids()["server-0"])
            lines = len(launch.lines)
            harness.kill(pid, signal.SIGSTOP)
            launch.wait_for_line("for server 1", since=lines)
            harness.kill(pid, signal.SIGCONT)
            self.wait_for_steps(launch, 15)
            self.assert_stops_with_same_bits(launch)
        self.assert_nothing_runs()

    def test_everything_stands_still_for_longer_than_the_job_may_stall(self):
        """The launcher is paused, too, as on a machine that was suspended."""
        stall = harness.patient(6)
        with self.launch(self.job(), *recovery.options([f"limits.stall={stall}"])) as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 15)
            pids = [launch.pid, *self.pids().values()]
            for pid in pids:
                harness.kill(pid, signal.SIGSTOP)
            since = time.monotonic()
            recovery.poll(lambda: time.monotonic() > since + stall + 1, "the end of the pause")
            for pid in reversed(pids):
                harness.kill(pid, signal.SIGCONT)
            self.wait_for_steps(launch, 15)
            self.assert_stops_with_same_bits(launch)
        self.assert_nothing_runs()

    def test_a_worker_that_stands_still_for_good_loses_its_slots(self):
        with self.launch(self.job()) as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 15)
            recovery.poll(lambda: self.takes_part(launch, "worker-1"), "worker-1 taking part")
            lines, pid = len(launch.lines), self.pids()["worker-1"]
            harness.kill(pid, signal.SIGSTOP)
            launch.wait_for_line("\"worker-1\" has been silent", since=lines)
            self.wait_for_steps(launch, 100)
            self.assertFalse(harness.ended(pid))
            self.assert_stops_with_same_bits(launch)
        self.assert_nothing_runs()


if __name__ == "__main__":
    harness.main()
