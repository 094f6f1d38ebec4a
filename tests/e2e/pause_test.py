#!/usr/bin/python3
"""Processes that stand still for longer than their lease, and go on or do not: the same bits."""
import signal
import threading

import harness
import recovery


class PauseTest(recovery.RecoveryTest):
    STEPS, LEASE = 500, 1
    LONGER_THAN_LEASE = 2.2
    LONGER_THAN_SILENCE = 4.2  # after 3 s it is said of servers and the coordinator, in reports a second apart

    def pause(self, launch, names):
        self.wait_for_steps(launch, 15)
        pids = [self.pids()[name] for name in names]
        for pid in pids:
            harness.kill(pid, signal.SIGSTOP)
        threading.Event().wait(self.LONGER_THAN_LEASE if names[0].startswith("worker") else self.LONGER_THAN_SILENCE)
        for pid in pids:
            harness.kill(pid, signal.SIGCONT)

    def test_each_role_stands_still_for_longer_than_a_lease(self):
        with self.launch(self.job()) as launch:
            launch.wait_for_line("running: ")
            for names in (["worker-1"], ["server-0"], ["coordinator"], ["worker-0", "worker-1", "worker-2"]):
                lines = len(launch.lines)
                self.pause(launch, names)
                self.wait_for_steps(launch, 1)
                said = [line for line in launch.lines[lines:] if "warning: " in line]
                self.assertTrue(said, launch.output)
                recovery.say(f"{' '.join(names)} stood still: {said[-1][:150]}")
            self.assert_same_bits(launch)
            self.assertIn("its slots move", launch.output)
        self.assert_nothing_runs()

    def test_a_server_that_stood_still_in_the_middle_of_a_recovery(self):
        with self.launch(self.job()) as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 60)
            harness.kill(self.pids()["server-0"])
            self.pause_at_once(self.pids()["server-1"])
            self.assert_same_bits(launch)
        self.assert_nothing_runs()

    def pause_at_once(self, pid):
        harness.kill(pid, signal.SIGSTOP)
        threading.Event().wait(self.LONGER_THAN_LEASE)
        harness.kill(pid, signal.SIGCONT)

    def test_a_worker_that_stands_still_for_good_loses_its_slots(self):
        with self.launch(self.job()) as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 15)
            harness.kill(self.pids()["worker-1"], signal.SIGSTOP)
            launch.wait_for_line("\"worker-1\" has been silent")
            self.assert_same_bits(launch)
        self.assert_nothing_runs()


if __name__ == "__main__":
    harness.main()
