#!/usr/bin/python3
"""Strangers at the ports of a running job: no handshake, frame, command or reset ends a process or changes a bit, and
connections that they hold keep no worker out and no snapshot off the disk."""
import contextlib
import resource

import harness
import recovery
import zmtp_attacker

TRIES = 10
DESCRIPTORS = 1024  # of each process of the job
STRANGERS = 1100  # connections to each process that listens
PORTS = ("--set", "cluster.coordinator=127.0.0.1:0")  # of TCP: Unix sockets are closed to strangers


class HostileConnectionsTest(recovery.RecoveryTest):
    def addresses(self):
        """Returns the addresses of coordinator and servers by name."""
        known = self.endpoints()
        return {"coordinator": known["coordinator"], **{f"server-{index}": shard for index, shard in enumerate(known["shards"])}}

    def test_bytes_end_no_process(self):
        with self.launch(self.job(), *PORTS) as launch:
            self.wait_for_steps(launch, 15)
            before = self.pids()
            for name, address in self.addresses().items():
                for attack in zmtp_attacker.ATTACKS:
                    for attempt in range(TRIES):
                        with contextlib.suppress(ConnectionError):
                            attack(address)
                        self.assertFalse(harness.ended(before[name]), f"{attack.__name__} at {name}, try {attempt}:\n{launch.output}")
                    recovery.say(f"{name} is alive after {TRIES} times {attack.__name__}")
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
            stack.enter_context(zmtp_attacker.Crowd(self.addresses().values(), STRANGERS))
            late = stack.enter_context(harness.Process(harness.program("capstan-worker"), "--coordinator",
                                                       self.addresses()["coordinator"], "--name", "late"))
            launch.wait_for_line('"late" joined')
            self.wait_for_steps(launch, 60)  # with slots of the late worker, and two snapshots
            self.assert_stops_with_same_bits(launch)
            self.assertNotIn("Too many open files", launch.output + late.output + self.logs())
        self.assertEqual({record["generation"] for record in recovery.records(self.path("run"))}, {1})


if __name__ == "__main__":
    harness.main()
