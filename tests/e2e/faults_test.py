#!/usr/bin/python3
"""A job whose every connection leads through fault_proxy.py: delay, thin lines, stalls, resets, half-open connections, cut
messages and flipped bits. The same bits come out, and what came damaged was refused and counted, or its connection remade.

Servers listen on 127.0.0.1 and advertise 127.0.0.2, where the proxies are; so does the coordinator.
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
DISTURBED = float(os.environ.get("CAPSTAN_CHAOS_SECONDS", "8"))
REFUSED = ("capstan_network_errors_total", "capstan_server_payload_hash_mismatches_total")


class FaultsTest(recovery.RecoveryTest):
    STEPS = 400

    @contextlib.contextmanager
    def job_through_proxies(self, seed, run="run"):
        """The coordinator's process, the proxies and their thread; all others run too."""
        coordinator = harness.free_port()
        ports = [harness.free_port() for _ in range(SERVERS)]
        job = self.job()
        proxies = [fault_proxy.FaultProxy(("127.0.0.2", port), ("127.0.0.1", port), seed + number, name)
                   for number, (name, port) in enumerate([("coordinator", coordinator), ("server-0", ports[0]),
                                                          ("server-1", ports[1])])]
        # Who is taken for another since his handshake was damaged calls anew after 80 s.
        server = [harness.program("capstan-server"), job, "--set", f"cluster.workers={WORKERS}", "--set", "limits.stall=150"]
        with contextlib.ExitStack() as stack:
            network = stack.enter_context(fault_proxy.ProxyThread(proxies))
            head = stack.enter_context(harness.Process(*server, "--coordinator", "--run-dir", self.path(run), "--set",
                                                       f"cluster.coordinator=127.0.0.1:{coordinator}"))
            head.wait_for_line("metrics at http://")
            self.others = []
            for index, port in enumerate(ports):
                self.others.append(stack.enter_context(harness.Process(
                    *server, "--index", str(index), "--run-dir", self.path(run), "--set", f"cluster.listen=127.0.0.1:{port}",
                    "--set", "cluster.advertise=127.0.0.2", "--set", f"cluster.coordinator=127.0.0.2:{coordinator}")))
            for index in range(WORKERS):
                self.others.append(stack.enter_context(harness.Process(
                    harness.program("capstan-worker"), "--coordinator", f"127.0.0.2:{coordinator}", "--name", f"w{index}")))
            yield head, proxies, network

    def scrape(self, process):
        """Sums of REFUSED as the process counts them, 0 when it has ended."""
        address = re.search(r"metrics at (http://[0-9.:]+)/", process.output)
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(address[1] + "/metrics", timeout=5) as answer:
                return sum(float(line.rsplit(" ", 1)[1]) for line in answer.read().decode().splitlines()
                           if line.startswith(REFUSED))
        return 0.0

    def disturb(self, head, proxies, network, rng, kinds, seconds):
        """Faults one after the other, each for up to `seconds`, for DISTURBED. What was refused, by the metrics."""
        refused = 0.0
        while not head.closed and time.monotonic() < self.began + DISTURBED:
            proxy = rng.choice(proxies)
            network.set_fault(proxy, fault_proxy.random_fault(rng, kinds))
            threading.Event().wait(rng.uniform(0.1, seconds))
            network.set_fault(proxy, None)
            refused = max(refused, sum(self.scrape(process) for process in [head, *self.others]))
            threading.Event().wait(rng.uniform(0.05, 0.3))
        return refused

    def run_with(self, kinds, seconds=0.6, seed=None):
        seed = recovery.seed_of_today()
        recovery.say(f"CAPSTAN_CHAOS_SEED={seed}")
        self.began = time.monotonic()
        with self.job_through_proxies(seed) as (head, proxies, network):
            head.wait_for_line("running: ")
            refused = self.disturb(head, proxies, network, random.Random(seed), kinds, seconds)
            try:
                head.wait(3 * harness.DEADLINE)
                self.assert_same_bits(head)
            except AssertionError as error:
                said = "\n".join(f"{process.name}:\n" + "\n".join(process.lines[-5:]) for process in self.others)
                raise AssertionError(f"{error}\n{said}") from None
            for process in self.others:
                self.assertEqual(process.wait(), 0, process.output)
        happened = {kind: sum(proxy.counts[kind] for proxy in proxies) for kind in kinds}
        recovery.say(f"{time.monotonic() - self.began:.1f} s, chunks touched: {happened}, connections made: "
                     f"{[proxy.made for proxy in proxies]}, refused by the metrics: {refused:.0f}")
        self.assertTrue(any(happened.values()), "an invalid run: nothing was disturbed")
        return happened, proxies, refused

    def test_slow_and_thin_lines(self):
        self.run_with(("latency", "bandwidth", "stall"))

    def test_connections_that_break(self):
        happened, proxies, _ = self.run_with(("reset", "truncate", "blackhole"))
        if happened["reset"] > 0:
            self.assertGreater(sum(proxy.made for proxy in proxies), SERVERS + WORKERS * (1 + SERVERS))

    def test_flipped_bits(self):
        happened, proxies, refused = self.run_with(("corrupt",))
        remade = sum(proxy.made for proxy in proxies) - (SERVERS + WORKERS * (1 + SERVERS))
        self.assertGreater(refused + remade, 0, "nobody noticed that bits were flipped")


if __name__ == "__main__":
    harness.main()
