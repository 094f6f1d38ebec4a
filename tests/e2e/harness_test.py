"""The harness itself: whose id stands in a file, and addresses that are nobody else's."""
import os
import socket
import subprocess
import unittest

import harness


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


if __name__ == "__main__":
    harness.main()
