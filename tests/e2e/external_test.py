#!/usr/bin/python3
"""Jobs whose optimizer stays in the program: the same bits for any number of processes, also if processes are killed, a
server is lost, or the job is resumed."""
import os
import signal

import harness
import own_workers
import recovery

PROGRAM = os.path.join(own_workers.HERE, "external_momentum.py")


class ExternalTest(own_workers.ExternalJobsTest):
    STEPS = 300
    BATCH, SLOTS = 96, 4

    def worker(self, coordinator, name):
        return self.python(PROGRAM, coordinator, name)

    def undisturbed(self):
        return self.once("undisturbed", lambda: self.digest_of_one(self.worker))

    def test_two_processes_give_the_bits_of_one_and_learn(self):
        self.assertEqual(self.digest_of_two(self.worker), self.undisturbed())
        losses = [record["loss"] for record in self.metrics("two")]
        self.assertLess(losses[-1], 0.5 * losses[0])
        self.assertEqual(len(losses), self.STEPS)

    def test_a_process_that_is_killed_changes_no_bit_and_its_successor_takes_the_others_version(self):
        self.assertEqual(self.digest_with_a_killed_worker(self.worker), self.undisturbed())
        self.assertEqual({record["generation"] for record in self.metrics("killed")}, {1}, "the job went back")

    def test_a_server_that_is_lost_takes_all_back_to_the_newest_snapshot(self):
        self.assertEqual(self.digest_with_a_killed_server(self.worker), self.undisturbed())

    def test_the_only_process_is_lost_and_the_next_one_begins_at_the_newest_snapshot(self):
        with self.gate_in_mid_run() as held, self.job("alone", 1) as launch:
            address = self.address(launch)
            with self.worker(address, "a") as a:
                self.kill_in_mid_run(a.pid, "alone")
                self.assertEqual(a.wait(), -signal.SIGKILL)
            with self.worker(address, "b") as b:
                launch.wait_for_line("no worker has version")
                held.open()
                self.assertEqual(self.digest_at_end(launch, "alone", [b]), self.undisturbed())

    def test_a_job_that_is_stopped_goes_on_where_it_was_with_the_same_bits(self):
        with self.gate_in_mid_run() as held, self.job("stopped", 1) as launch, self.worker(self.address(launch), "a"):
            self.wait_for_steps("stopped", own_workers.KILL_AFTER)
            harness.kill(launch.pid, signal.SIGINT)
            launch.wait_for_line("stopping")  # else the job may be done before
            held.open()
            self.assertEqual(launch.wait(), 130, launch.output)
        done = recovery.count_records(self.path("stopped"))
        self.assertLess(done, self.STEPS, "an invalid run: it was over")
        with self.resumed("stopped") as launch, self.worker(self.address(launch), "a") as a:
            self.assertEqual(self.digest_at_end(launch, "stopped", [a]), self.undisturbed())
        self.assertEqual(len(self.metrics("stopped")), self.STEPS, "steps were done again")

    def test_a_job_that_is_killed_and_resumed_has_the_same_bits(self):
        with self.gate_in_mid_run(), self.job("killed", 1) as launch, self.worker(self.address(launch), "a") as a:
            self.wait_for_steps("killed", own_workers.KILL_AFTER)
            harness.kill(launch.pid)
            launch.child.wait()
            os.kill(a.pid, signal.SIGKILL)
        with self.resumed("killed") as launch, self.worker(self.address(launch), "a") as a:
            self.assertEqual(self.digest_at_end(launch, "killed", [a]), self.undisturbed())

    def resumed(self, run):
        return harness.Process(harness.program("capstan"), "launch", "--resume", "--run-dir", self.path(run),
                               cwd=self.folder)


if __name__ == "__main__":
    harness.main()
