#!/usr/bin/python3
"""Strangers at the ports of a running job: no handshake, frame, command or reset ends a process or changes a bit,
connections that they hold keep no worker out and no snapshot off the disk, and what they write fills no log."""
import contextlib
import os
import resource
import subprocess
import unicodedata

import harness
import recovery
import zmtp_attacker

TRIES = 10
DESCRIPTORS = 1024  # of each process of the job
STRANGERS = 1100  # connections to each process that listens
BAD_JOINS = 10_000
PORTS = ("--set", "cluster.coordinator=127.0.0.1:0")  # of TCP: Unix sockets are closed to strangers


def stranger(*arguments):
    """Runs the program that tests/e2e/CMakeLists.txt builds of stranger.cc."""
    program = os.environ.get("CAPSTAN_STRANGER", os.path.join(harness.BIN, "..", "tests", "e2e", "stranger"))
    return subprocess.run([program, *map(str, arguments)], timeout=harness.DEADLINE, capture_output=True, text=True)


def controls(text):
    """Returns the control characters in a text, but for ends of lines."""
    return {character for character in text if unicodedata.category(character) == "Cc" and character != "\n"}


class HostileConnectionsTest(recovery.RecoveryTest):
    def addresses(self):
        """Returns the addresses of coordinator and servers by name."""
        known = self.endpoints()
        return {"coordinator": known["coordinator"], **{f"server-{index}": shard for index, shard in enumerate(known["shards"])}}

    def attack(self, name, address, pid, launch):
        for attack in zmtp_attacker.ATTACKS:
            for attempt in range(TRIES):
                with contextlib.suppress(ConnectionError):
                    attack(address)
                self.assertFalse(harness.ended(pid), f"{attack.__name__} at {name}, try {attempt}:\n{launch.output}")
            recovery.say(f"{name} is alive after {TRIES} times {attack.__name__}")

    def test_bytes_end_no_process(self):
        with self.launch(self.job(), *PORTS) as launch:
            self.wait_for_steps(launch, 15)
            before = self.pids()
            with self.slow_workers():
                for name, address in self.addresses().items():
                    self.attack(name, address, before[name], launch)
            self.wait_for_steps(launch, 15)
            self.assertEqual(self.pids(), before)
            self.assert_stops_with_same_bits(launch)
        self.assertEqual({record["generation"] for record in recovery.records(self.path("run"))}, {1})

    def test_held_connections_keep_nobody_out(self):
        least = STRANGERS * 3 + 100
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most < least:
            self.skipTest(f"{least} open files are needed, and {most} allowed")
        resource.setrlimit(resource.RLIMIT_NOFILE, (least, most))
        job = self.job()
        command = ["/bin/sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$0" "$@"', harness.program("capstan"), "launch", job,
                   "--run-dir", self.path("run"), *PORTS]
        with harness.Process(*command, cwd=self.folder) as launch, contextlib.ExitStack() as stack:
            self.wait_for_steps(launch, 15)
            with self.slow_workers():
                stack.enter_context(zmtp_attacker.Crowd(self.addresses().values(), STRANGERS))
                late = stack.enter_context(harness.Process(harness.program("capstan-worker"), "--coordinator",
                                                           self.addresses()["coordinator"], "--name", "late"))
                launch.wait_for_line('"late" joined')
            self.wait_for_steps(launch, 60)  # with slots of the late worker, and two snapshots
            self.assert_stops_with_same_bits(launch)
            self.assertNotIn("Too many open files", launch.output + late.output + self.logs())
        self.assertEqual({record["generation"] for record in recovery.records(self.path("run"))}, {1})

    def test_refused_messages_fill_no_log(self):
        with self.launch(self.job(), *PORTS) as launch:
            self.wait_for_steps(launch, 15)
            with self.slow_workers():
                attack = stranger("bad-joins", self.addresses()["coordinator"], BAD_JOINS)
            self.assertEqual(attack.returncode, 0, attack.stderr)
            self.wait_for_steps(launch, 15)
            self.assert_stops_with_same_bits(launch)
        self.assertEqual(controls(launch.output), set())
        self.assertNotIn("\n12:00:00.000 done", launch.output)
        self.assertLess(len(launch.output), 1 << 20)
        logs = self.logs()
        self.assertEqual(controls(logs), set())
        self.assertLess(len(logs), 1 << 20)
        self.assert_one_line_says(logs, "refused: ", "more like it in the last second)")


if __name__ == "__main__":
    harness.main()
