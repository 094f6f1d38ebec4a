#!/usr/bin/python3
"""A job whose every connection goes through fault_proxy.py: delays, slow lines, stalls, resets, half-open connections, cut
messages and flipped bits. The result has the same bits; damaged messages were refused and counted, or the connection was
made again.

Servers listen on one loopback address and advertise another one, where the proxies are; so does the coordinator.
CAPSTAN_CHAOS_SECONDS is how long a job is disturbed (8 by default), and longer if too few faults have occurred by then.
"""
import contextlib
import os
import random
import re
import threading
import time
import urllib.request

import fault_proxy
import harness
import recovery

SERVERS, WORKERS = 2, 2
MADE = SERVERS + WORKERS * (1 + SERVERS)  # connections, where none breaks
DISTURBED = float(os.environ.get("CAPSTAN_CHAOS_SECONDS", "8"))
# This is longer than 80 s: a process whose handshake was damaged may be taken for another process. Then it gets no
# messages, and it connects again only after 80 s of silence.
STALL = harness.patient(150)
PROXIES = "127.{}.{}".format(int(harness.HOST.split(".")[1]) + 64, harness.HOST.split(".", 2)[2])  # this process's own, too
REFUSED = ("capstan_network_errors_total", "capstan_server_payload_hash_mismatches_total")


class FaultsTest(recovery.RecoveryTest):
    @contextlib.contextmanager
    def job_through_proxies(self, seed, run="run", steps=None, fault=None):
        """Starts a whole job whose connections go through proxies. Yields the coordinator's process, the proxies and their
        thread. `fault`: set from the start on."""
        coordinator, *shards = (harness.free_address() for _ in range(1 + SERVERS))
        proxied = lambda address: (PROXIES, int(address.rsplit(":", 1)[1]))
        target = lambda address: (harness.HOST, int(address.rsplit(":", 1)[1]))
        proxies = [fault_proxy.FaultProxy(proxied(address), target(address), seed + number)
                   for number, address in enumerate([coordinator, *shards])]
        calls = "{}:{}".format(*proxied(coordinator))
        server = [harness.program("capstan-server"), self.job(steps), "--set", f"cluster.workers={WORKERS}", "--set",
                  f"limits.stall={STALL}", "--run-dir", self.path(run)]
        with contextlib.ExitStack() as stack:
            network = stack.enter_context(fault_proxy.ProxyThread(proxies))
            for proxy in proxies:
                network.set_fault(proxy, fault)
            start = lambda *words: stack.enter_context(harness.Process(*words))
            head = start(*server, "--coordinator", "--set", f"cluster.coordinator={coordinator}")
            head.wait_for_line("metrics at http://")
            self.others = [start(*server, "--index", str(index), "--set", f"cluster.listen={address}", "--set",
                                 f"cluster.advertise={PROXIES}", "--set", f"cluster.coordinator={calls}")
                           for index, address in enumerate(shards)]
            self.others += [start(harness.program("capstan-worker"), "--coordinator", calls, "--name", f"w{index}")
                            for index in range(WORKERS)]
            head.wait_for_line("running: ")
            yield head, proxies, network

    def scrape(self, process):
        """Returns the sum of the process's counters named in REFUSED; 0 if it has ended."""
        address = re.search(r"metrics at (http://[0-9.:]+)/", process.output)
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(address[1] + "/metrics", timeout=harness.DEADLINE) as answer:
                return sum(float(line.rsplit(" ", 1)[1]) for line in answer.read().decode().splitlines()
                           if line.startswith(REFUSED))
        return 0.0

    def refused(self, head):
        return sum(self.scrape(process) for process in [head, *self.others])

    def disturb(self, head, proxies, network, rng, happened, noticed):
        """Sets faults one after the other for DISTURBED seconds, and until all kinds have happened and were noticed."""
        began = time.monotonic()
        while time.monotonic() < began + DISTURBED or not all(happened().values()) or not noticed():
            proxy, late = rng.choice(proxies), time.monotonic() >= began + DISTURBED
            missing = [kind for kind, count in happened().items() if count == 0]
            network.set_fault(proxy, fault_proxy.random_fault(rng, missing if late and missing else list(happened())))
            threading.Event().wait(rng.uniform(0.1, 0.6))
            network.set_fault(proxy, None)
            threading.Event().wait(rng.uniform(0.05, 0.3))
            self.assertFalse(head.closed, head.output)
            self.assertLess(time.monotonic(), began + DISTURBED + harness.DEADLINE, "an invalid run: too little happened")

    def run_with(self, *kinds, noticed=lambda made, refused: True):
        """Runs a job with these kinds of faults. `noticed`: whether the numbers of connections made and messages refused show
        that the job has noticed them."""
        seed = recovery.chaos_seed()
        recovery.say(f"CAPSTAN_CHAOS_SEED={seed}")
        with self.job_through_proxies(seed) as (head, proxies, network):
            happened = lambda: {kind: sum(proxy.counts[kind] for proxy in proxies) for kind in kinds}
            made = lambda: sum(proxy.made for proxy in proxies)
            self.disturb(head, proxies, network, random.Random(seed), happened, lambda: noticed(made(), self.refused(head)))
            recovery.say(f"chunks touched: {happened()}, connections made: {made()}, refused: {self.refused(head):.0f}")
            self.goes_on(head)

    def goes_on(self, head, run="run"):
        try:
            begun = recovery.count_records(self.path(run))
            recovery.poll(lambda: recovery.count_records(self.path(run)) >= begun + 25 or head.closed, "25 more steps", STALL)
            self.assert_stops_with_same_bits(head, run)
        except AssertionError as error:
            said = "\n".join(f"{process.name}:\n" + "\n".join(process.lines[-5:]) for process in self.others)
            raise AssertionError(f"{error}\n{said}") from None
        for server in self.others[:SERVERS]:  # workers wait for another coordinator
            self.assertEqual(server.wait(), 0, server.output)

    def test_slow_and_thin_lines(self):
        self.run_with("latency", "bandwidth", "stall")

    def test_slow_lines_to_the_end_of_a_job(self):
        steps = 60
        with self.job_through_proxies(1, steps=steps, fault=fault_proxy.Fault("latency", seconds=0.005)) as (head, proxies, _):
            self.assert_same_bits(head, steps=steps)
            for process in self.others:
                self.assertEqual(process.wait(), 0, process.output)
        self.assertTrue(all(proxy.counts["latency"] for proxy in proxies))

    def test_connections_that_break(self):
        """A process that loses its connection makes another one."""
        self.run_with("reset", "truncate", "blackhole", noticed=lambda made, refused: made > MADE)

    def test_flipped_bits(self):
        """A damaged message is refused, or its connection is made again."""
        self.run_with("corrupt", noticed=lambda made, refused: refused + made > MADE)

    def test_a_flipped_bit_in_a_handshake(self):
        for number in range(recovery.CHAOS_RUNS):
            seed = recovery.chaos_seed() + number
            recovery.say(f"CAPSTAN_CHAOS_SEED={seed}")
            with self.job_through_proxies(seed, f"run{number}") as (head, proxies, network):
                proxy = random.Random(seed).choice(proxies)
                self.wait_for_steps(head, 15, f"run{number}")
                network.set_fault(proxy, fault_proxy.Fault("handshake"))
                recovery.poll(lambda: proxy.counts["handshake"] > 0, "a connection")
                network.set_fault(proxy, None)
                self.goes_on(head, f"run{number}")


if __name__ == "__main__":
    harness.main()
