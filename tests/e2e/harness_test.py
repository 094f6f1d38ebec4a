"""The harness itself: processes by their ids, addresses for one test, limits that are reported, and seeds that repeat."""
import os
import socket
import subprocess
import types
import unittest
from unittest import mock

import harness
import recovery
import tier


class PidTest(harness.JobTest):
    def setUp(self):
        super().setUp()
        self.child = subprocess.Popen(["/usr/bin/env", "sleep", "1000"])
        self.addCleanup(self.child.wait)
        self.addCleanup(self.child.kill)
        self.file = self.write("pid", f"{self.child.pid}\n")

    def test_a_process_is_known_until_it_ends(self):
        pid = harness.read_pid(self.file)
        self.assertEqual(pid, self.child.pid)
        self.assertFalse(harness.ended(pid))
        self.child.kill()
        harness.poll(lambda: harness.ended(pid), "its end, which its parent has not looked at")
        with self.assertRaises(ProcessLookupError):
            harness.kill(pid)

    def test_a_process_that_began_after_the_file_was_written_is_another_one(self):
        written = os.stat(self.file).st_mtime - 10
        os.utime(self.file, (written, written))
        pid = harness.read_pid(self.file)
        self.assertTrue(harness.ended(pid))
        with self.assertRaises(ProcessLookupError):
            harness.kill(pid)

    def test_an_id_that_was_given_out_again_is_not_the_process_that_had_it(self):
        pid = harness.read_pid(self.file)
        pid.started -= 1
        self.assertTrue(harness.ended(pid))


class AddressTest(unittest.TestCase):
    def test_each_call_gives_another_one_that_can_be_taken(self):
        addresses = [harness.free_address() for _ in range(100)]
        self.assertEqual(len(set(addresses)), 100)
        host, port = addresses[-1].rsplit(":", 1)
        self.assertNotEqual(host, "127.0.0.1")
        with socket.socket() as taken:
            taken.bind((host, int(port)))

    def test_a_port_is_free_at_all_addresses_and_none_that_the_system_gives(self):
        with socket.socket() as given:
            given.bind((harness.HOST, 0))
            self.assertNotIn(given.getsockname()[1], harness.own_ports())
        ports = [harness.free_port() for _ in range(100)]
        self.assertEqual(len(set(ports)), 100)
        with socket.socket() as everywhere:
            everywhere.bind(("", ports[0]))


class LimitTest(harness.JobTest):
    """Every message about a time limit of a test that was exceeded has the same phrase, and no other message has it."""

    def start(self, *words):
        return harness.Process("/usr/bin/env", *words)

    def test_what_did_not_happen_in_time(self):
        with self.assertRaisesRegex(AssertionError, r"^rain did not happen within 0 s \(limit of the test\)$"):
            harness.poll(lambda: False, "rain", seconds=0)
        with self.start("tail", "-f", "/dev/null") as process:
            with self.assertRaisesRegex(AssertionError, r'^env did not say "a" within 0 s \(limit of the test\) but:'):
                process.wait_for_line("a", timeout=0)
            with self.assertRaisesRegex(AssertionError, r"^env did not end within 0 s \(limit of the test\); it said:") as failed:
                process.wait(timeout=0)
            self.assertRegex(str(failed.exception), f"still there:\nprocess {process.pid} .*")

    def test_a_process_that_ended_early_is_no_limit(self):
        with self.start("echo", "b") as process:
            with self.assertRaisesRegex(AssertionError, '^env did not say "a" but:\nb$'):
                process.wait_for_line("a")


class SlowWorkersTest(harness.JobTest):
    def test_workers_stand_still_within_the_block_and_run_after_it(self):
        os.makedirs(self.path("run", "pids"))
        with harness.Process("/usr/bin/env", "tail", "-f", "/dev/null") as process:
            self.write("run/pids/worker-0", str(process.pid))
            state = lambda: harness.stat_of(process.pid)[0]
            with self.slow_workers():
                harness.poll(lambda: state() == "T", "a stopped worker")
            harness.poll(lambda: state() != "T", "a worker that goes on")


class TierTest(unittest.TestCase):
    def chosen(self, what="cases", **variables):
        with mock.patch.dict(os.environ, variables):
            return tier.some(what, range(100), 5)

    def test_cases_follow_from_the_seed_and_their_name(self):
        first = self.chosen(CAPSTAN_TEST_TIER="", CAPSTAN_TEST_SEED="1")
        self.assertEqual(len(first), 5)
        self.assertEqual(self.chosen(CAPSTAN_TEST_TIER="default", CAPSTAN_TEST_SEED="1"), first)
        self.assertNotEqual(self.chosen(CAPSTAN_TEST_TIER="", CAPSTAN_TEST_SEED="2"), first)
        self.assertNotEqual(self.chosen("others", CAPSTAN_TEST_TIER="", CAPSTAN_TEST_SEED="1"), first)

    def test_tier_all_has_every_case(self):
        self.assertEqual(self.chosen(CAPSTAN_TEST_TIER="all"), list(range(100)))
        with self.assertRaisesRegex(ValueError, 'not "ALL"'):
            self.chosen(CAPSTAN_TEST_TIER="ALL")


class ChaosTest(harness.JobTest):
    def seed(self, **variables):
        with mock.patch.dict(os.environ, variables):
            for name in {"CAPSTAN_CHAOS_SEED", "CAPSTAN_TEST_SEED"} - set(variables):
                os.environ.pop(name, None)
            return recovery.chaos_seed()

    def test_a_seed_follows_from_what_is_given(self):
        self.assertEqual(self.seed(CAPSTAN_CHAOS_SEED="7", CAPSTAN_TEST_SEED="8"), 7)
        self.assertEqual(self.seed(CAPSTAN_TEST_SEED="8"), 9)
        self.assertEqual(self.seed(CAPSTAN_TEST_SEED="0"), 1)
        self.assertGreater(len({self.seed() for _ in range(10)}), 1)

    def test_kills_end_with_a_job_that_ends_early(self):
        os.makedirs(self.path("run", "pids"))
        self.write("run/metrics.jsonl", '{"step": 49}\n')
        recovery.kill_until_done(types.SimpleNamespace(closed=True), self.path("run"), 200)


if __name__ == "__main__":
    harness.main()
