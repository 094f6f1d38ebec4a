#!/usr/bin/python3
"""Processes that are no part of a job talk to its coordinator: the job goes on, and has the bits of an undisturbed one.

The stranger is capstan_stranger, which speaks the protocol and claims what it has no right to: a server's place, another
model, a rank, a worker's name, slots that it does not compute, a loss that did not happen.
"""
import os

import harness
import recovery

STRANGER = os.environ.get("CAPSTAN_STRANGER", "")


def stranger(address, act, name="stranger", seconds=3):
    return harness.Process(STRANGER, address, act, name, str(seconds))


class StrangersJoinTest(recovery.RecoveryTest):
    def begin(self, *arguments):
        """Starts a job at an address that a stranger knows before it listens."""
        address = harness.free_address()
        return address, self.launch(self.job(), "--set", f"cluster.coordinator={address}", *arguments)

    def acts_first(self, act, name="stranger"):
        """The stranger speaks before any process of the job has joined."""
        address = harness.free_address()
        with stranger(address, act, name, seconds=harness.patient(20)) as other, \
                self.launch(self.job(), "--set", f"cluster.coordinator={address}") as launch:
            other.wait_for_line("begins")
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 20)
            self.assert_stops_with_same_bits(launch)
            return launch.output

    def acts_meanwhile(self, act, name="stranger", seconds=3):
        address, job = self.begin()
        with job as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 30)
            with stranger(address, act, name, seconds) as other:
                other.wait_for_line("begins")
                self.wait_for_steps(launch, 30)
                self.assertEqual(other.wait(), 0, other.output)
            self.assertFalse(launch.closed, launch.output)
            self.assert_stops_with_same_bits(launch)
            return launch.output

    # ---- a server's place

    def test_a_hello_takes_no_living_servers_place(self):
        for act in ("hello", "hello-term"):
            with self.subTest(act):
                output = self.acts_meanwhile(act)
                self.assertNotIn("was lost and came back", output)

    def test_a_server_that_is_killed_gets_its_place_back_from_a_stranger_that_claims_it(self):
        address, job = self.begin()
        with job as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 60)  # there are snapshots
            with stranger(address, "hello", seconds=harness.patient(30)) as other:
                other.wait_for_line("begins")
                harness.kill(self.pids()["server-0"])
                launch.wait_for_line("server 0 was lost and came back")
                launch.wait_for_line("recovered in ")
                self.wait_for_steps(launch, 30)
            self.assert_stops_with_same_bits(launch)

    # ---- the first to join

    def test_the_first_catalog_is_not_the_jobs(self):
        output = self.acts_first("catalog")
        self.assert_one_line_says(output, "refused: ", 'worker "stranger"')

    def test_the_first_rank_locks_nobody_out(self):
        self.acts_first("rank")

    def test_a_stranger_that_comes_first_under_a_workers_name_ends_nobody(self):
        self.acts_first("catalog", "worker-0")

    # ---- workers

    def test_a_workers_name_is_not_taken_from_it(self):
        output = self.acts_meanwhile("member", "worker-0", seconds=5)
        self.assert_one_line_says(output, 'two processes are called "worker-0"')
        self.assertNotIn("restart", output)

    def test_many_joins_stop_no_job(self):
        run = self.path("run", "snapshots", "coordinator.log")
        address, job = self.begin()
        with job as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 30)
            before = open(run, encoding="utf-8").read().count('"session"')
            with stranger(address, "flood", "worker-0", seconds=5) as other:
                other.wait_for_line("begins")
                self.wait_for_steps(launch, 30)
                self.assertEqual(other.wait(), 0, other.output)
            self.assertLess(open(run, encoding="utf-8").read().count('"session"') - before, 3)
            self.assert_stops_with_same_bits(launch)

    def test_members_that_only_beat_are_left_out(self):
        address, job = self.begin()
        with job as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 30)
            with stranger(address, "member", "x", harness.patient(600)), stranger(address, "member", "y", harness.patient(600)):
                for name in "xy":
                    launch.wait_for_line(f'"{name}" is left out, because others have waited for it')
                self.wait_for_steps(launch, 100)
                # They join again under other names: those wait.
                with stranger(address, "member", "z", harness.patient(600)):
                    launch.wait_for_line('"z" joined')
                    self.wait_for_steps(launch, 100)
                self.assert_stops_with_same_bits(launch)


class StrangersInAGroupTest(recovery.RecoveryTest):
    """Members of a group of mode allreduce. A sum of two slots has one order, so the weights are those of mode sync."""

    @classmethod
    def text(cls, steps):
        text = super().text(steps)
        assert "slots = 5" in text and "workers = 3" in text
        return text.replace("slots = 5", "slots = 2").replace("workers = 3", "workers = 1")

    def test_one_members_word_takes_no_job_back(self):
        address = harness.free_address()
        settings = ["job.mode=allreduce", f"cluster.coordinator={address}"]
        with self.launch(self.job(), *recovery.options(settings)) as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 30)
            with stranger(address, "lost", "a", harness.patient(600)):
                launch.wait_for_line('"a" is left out, because others have waited for it')
                self.wait_for_steps(launch, 30)
            self.assertNotIn("the job goes back to version", launch.output)
            self.assert_stops_with_same_bits(launch)


if __name__ == "__main__":
    harness.main()
