#!/usr/bin/python3
"""Workers that add up gradients among themselves over encrypted connections: the bits of other jobs, also when members are lost,
and no stranger at a worker's ports ends anything."""
import os
import signal
import socket

import harness
import recovery
from collective_jobs import REDUCED, SENT, CollectiveJob

BOTH = ("worker-0", "worker-1")
CURVE = ("--set", "security.transport=\"curve\"")
GROUPS = 'capstan_worker_groups_total{kind="%s"}'


def listening(pid):
    """Returns the (host, port) pairs at which a process listens for TCP."""
    sockets, folder = {}, f"/proc/{pid}/fd"
    with open("/proc/net/tcp", encoding="ascii") as table:
        for words in (line.split() for line in table.readlines()[1:]):
            host, port = words[1].split(":")
            if words[3] == "0A":
                sockets[f"socket:[{words[9]}]"] = (socket.inet_ntoa(bytes.fromhex(host)[::-1]), int(port, 16))
    held = [os.readlink(os.path.join(folder, name)) for name in os.listdir(folder)]
    return [sockets[name] for name in held if name in sockets]


def send_garbage(address):
    for count in (1, 48, 5000):
        with socket.create_connection(address, timeout=harness.DEADLINE) as stranger:
            stranger.sendall(b"\x55" * count)


class SecureCollectivesTest(CollectiveJob, recovery.RecoveryTest):
    @classmethod
    def text(cls, steps):
        """The job file, also of the undisturbed job in mode sync. The sum of two slots has one order."""
        return super().text(steps).replace("slots = 5", "slots = 2").replace("workers = 3", "workers = 2")

    def begin(self, *arguments):
        return self.launch(self.job(), "--set", "cluster.workers=2", "--max-restarts", "100", *arguments)

    def assert_goes_on(self, launch, counter):
        """Waits until the job has done steps and both workers add up gradients, over encrypted connections only."""
        self.wait_for_steps(launch, 5)
        self.wait_until_counting(launch, BOTH, counter)
        for name in BOTH:
            counters = self.counters(name)
            self.assertGreater(counters[GROUPS % "secure"], 0)
            self.assertEqual(counters[GROUPS % "gloo"], 0)

    def disturb_members(self, launch, counter):
        launch.wait_for_line("running: ")
        self.assert_goes_on(launch, counter)
        for name in BOTH:
            addresses = listening(recovery.pid_of(self.path("run"), name))
            self.assertGreater(len(addresses), 1, "one is of the metrics")
            for address in addresses:
                send_garbage(address)
        self.assert_goes_on(launch, counter)
        for number in (signal.SIGKILL, signal.SIGSTOP):
            (pid,) = self.disturb(launch, ["worker-1"], number)
            self.wait_for_steps(launch, 10)
            if number == signal.SIGSTOP:
                recovery.kill_if_alive(pid, signal.SIGCONT)
            self.assert_goes_on(launch, counter)
        self.assert_stops_with_same_bits(launch)

    def test_all_reduce_with_keys_is_encrypted_and_goes_on_when_a_worker_is_lost(self):
        with self.begin(*CURVE, "--set", "job.mode=allreduce") as launch:
            self.disturb_members(launch, SENT)
        self.assert_nothing_runs()

    def test_all_reduce_without_keys_is_encrypted_where_the_job_file_says_so(self):
        with self.begin("--set", "job.mode=allreduce", "--set", "allreduce.collective=secure") as launch:
            launch.wait_for_line("running: ")
            self.assert_goes_on(launch, SENT)
            self.assert_stops_with_same_bits(launch)

    def test_a_machine_adds_up_over_encrypted_connections(self):
        with self.begin(*CURVE, "--set", "allreduce.local_reduce=secure") as launch:
            self.disturb_members(launch, REDUCED)
        self.assert_nothing_runs()


if __name__ == "__main__":
    harness.main()
