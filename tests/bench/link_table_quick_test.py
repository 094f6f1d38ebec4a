"""link_table.py --quick measures one complete point and leaves nothing behind, even if it is cut short or finds the leftovers
of another run: link_table_quick_test.py --bin DIR. Needs root, ip and tc; without them it exits with 77, and with 1
where CI=true.
"""
import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
import link_network
import link_table
import local_reduce_table

PROGRAM = [sys.executable, "-B", link_table.__file__]
DEADLINE = 120
BIN = None


def runs(pid):
    """Whether the process runs. A zombie, which has ended and is only not reaped yet, does not count."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


class QuickTest(unittest.TestCase):
    def start(self, *words):
        obedient = "/usr/bin/env", "--default-signal=INT"  # also where this test is a job in the background
        child = subprocess.Popen([*obedient, *PROGRAM, "--bin", BIN, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(child.stderr.close)
        self.addCleanup(child.stdout.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def test_workers_of_one_machine_are_measured_with_and_without_a_common_push(self):
        words = [sys.executable, "-B", local_reduce_table.__file__, "--bin", BIN, "--links", "unlimited", "--sizes", "1"]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        rows = [line.split() for line in ended.stdout.splitlines()[1:]]
        self.assertEqual([row[2:4] for row in rows], [["1", "2"], ["1", "4"]])
        self.assertTrue(all(float(cell) > 0 for row in rows for cell in row[4:]), ended.stdout)

    def test_a_point_is_measured_and_nothing_is_left(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        leftover = f"{link_network.PREFIX}{gone.pid}-w0"
        link_network.ip("netns", "add", leftover)
        with tempfile.TemporaryDirectory() as folder:
            output = os.path.join(folder, "points.json")
            child = self.start("--quick", "--output", output)
            out, err = child.communicate(timeout=DEADLINE)
            self.assertEqual(child.returncode, 0, err)
            with open(output, encoding="utf-8") as file:
                found = json.load(file)
        self.assertNotIn(leftover, [name for name, _ in link_network.spaces()])
        self.assertEqual(link_network.spaces(child.pid), [])
        self.assertIn("--quick", found["command"])
        (point,) = found["points"]
        self.assertIn(link_table.columns(point), out)
        print("times of the formula:", {mode: point[mode]["ratio"] for mode in ("sync", "allreduce")})
        for mode in "sync", "allreduce":
            # In mode sync a worker pushes its whole gradient; in a ring of two workers it sends two halves.
            self.assertGreaterEqual(point[mode]["sent_bytes"], point["bytes"], point)
            self.assertLess(point[mode]["sent_bytes"], 2 * point["bytes"], point)
            self.assertGreater(point[mode]["steps"], 0, point)

    def test_who_is_interrupted_takes_all_away(self):
        for number, code in (signal.SIGINT, 130), (signal.SIGTERM, 143):
            child = self.start("--only", "1gbit/1mib/2w1s", "--links", "1gbit")
            self.assertIn("unlimited/1mib/2w1s sync: ", child.stderr.readline())
            self.assertNotEqual(link_network.spaces(child.pid), [])
            running = {pid for name, _ in link_network.spaces(child.pid)
                       for pid in link_network.run("ip", "netns", "pids", name).split()}
            child.send_signal(number)
            _, err = child.communicate(timeout=DEADLINE)
            self.assertEqual(child.returncode, code, err)
            self.assertEqual(link_network.spaces(child.pid), [])
            self.assertEqual([pid for pid in running if runs(pid)], [])

    def test_a_job_that_fails_is_shown_and_taken_away(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in "capstan-server", "capstan-worker":
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write("#!/bin/sh\necho out of order\nexit 3\n")
                os.chmod(os.path.join(folder, name), 0o755)
            child = subprocess.run([*PROGRAM, "--bin", folder, "--quick"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, timeout=DEADLINE)
        self.assertEqual(child.returncode, 1)
        self.assertIn("exit 3; its last lines:\nout of order", child.stderr)
        self.assertEqual([name for name, maker in link_network.spaces() if not os.path.exists(f"/proc/{maker}")], [])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, help="folder of the binaries")
    arguments, rest = parser.parse_known_args()
    BIN = os.path.abspath(arguments.bin)
    reason = link_network.missing()
    if reason:
        print(f"SKIPPED: {reason}")
        sys.exit(1 if os.environ.get("CI") == "true" else link_table.NO_SUPPORT)
    unittest.main(argv=[sys.argv[0], *rest], verbosity=2)
