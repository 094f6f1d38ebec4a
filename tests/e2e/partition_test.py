#!/usr/bin/python3
"""Cut networks: every process of a job has its own network namespace, and blackhole routes cut two of them off from each
other, in both directions or one. An unreachable process is named, and the job goes on to the same bits when the network is
whole again.

The namespaces are connected to a hub by veth; the machine's own network is not changed. It needs root.
"""
import contextlib
import os
import shutil
import subprocess
import sys
import time

import harness
import recovery

MEMBERS = ("coordinator", "server-0", "server-1", "w0", "w1")
PORT = 7070


def ip(*arguments, inside=None):
    command = ["ip", *(["-n", inside] if inside else []), *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


class Network:
    """A network namespace for each member, and one that forwards between them."""

    def __init__(self):
        self.prefix = f"capstan{os.getpid()}"
        self.made = []

    def space(self, member):
        return f"{self.prefix}-{member}"

    def address(self, member):
        return f"10.213.{MEMBERS.index(member)}.2"

    def __enter__(self):
        hub = self._make("hub")
        for index, member in enumerate(MEMBERS):
            space = self._make(member)
            ip("link", "add", f"m{index}", "netns", hub, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("addr", "add", f"10.213.{index}.1/24", "dev", f"m{index}", inside=hub)
            ip("addr", "add", f"10.213.{index}.2/24", "dev", "eth0", inside=space)
            ip("link", "set", f"m{index}", "up", inside=hub)
            ip("link", "set", "eth0", "up", inside=space)
            ip("route", "add", "default", "via", f"10.213.{index}.1", inside=space)
        subprocess.run(["ip", "netns", "exec", hub, "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
        return self

    def _make(self, name):
        ip("netns", "add", self.space(name))
        self.made.append(self.space(name))
        ip("link", "set", "lo", "up", inside=self.space(name))
        return self.space(name)

    def __exit__(self, *_):
        for space in self.made:
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "del", space)

    def command(self, member, program, *arguments):
        return ["/usr/bin/env", "ip", "netns", "exec", self.space(member), harness.program(program), *arguments]

    def set_routes(self, what, pairs):
        """Adds routes ("add") through which all that a sends to b is lost, for each pair (a, b), or deletes them ("del")."""
        for a, b in pairs:
            ip("route", what, "blackhole", self.address(b) + "/32", inside=self.space(a))


class PartitionTest(recovery.RecoveryTest):
    @contextlib.contextmanager
    def job_in(self, network):
        coordinator = f"{network.address('coordinator')}:{PORT}"
        server = [self.job(), "--run-dir", self.path("run"), "--allow-plaintext", "--set", "cluster.workers=2", "--set",
                  f"cluster.coordinator={coordinator}"]
        with contextlib.ExitStack() as stack:
            start = lambda member, *words: stack.enter_context(harness.Process(*network.command(member, *words)))
            head = start("coordinator", "capstan-server", *server, "--coordinator")
            head.wait_for_line("metrics at http://")
            self.others = [start(f"server-{index}", "capstan-server", *server, "--index", str(index), "--set",
                                 f"cluster.listen={network.address(f'server-{index}')}:{PORT}") for index in range(2)]
            self.others += [start(name, "capstan-worker", "--coordinator", coordinator, "--allow-plaintext", "--name", name)
                            for name in ("w0", "w1")]
            yield head

    def cut(self, network, head, pairs, *named):
        """Cuts these pairs until a warning contains all of `named`, then waits until the job does another step."""
        self.wait_for_steps(head, 15)
        lines = len(head.lines)
        network.set_routes("add", pairs)
        began = time.monotonic()
        said = lambda: [line for line in head.lines[lines:] if "warning: " in line and all(name in line for name in named)]
        recovery.poll(lambda: said() or head.closed, f"a warning that names {named} while {pairs} are cut")
        self.assertFalse(head.closed, head.output)
        network.set_routes("del", pairs)
        healed = time.monotonic()
        done = recovery.count_records(self.path("run"))
        self.wait_for_steps(head, 1)
        recovery.say(f"cut {' '.join('>'.join(pair) for pair in pairs)} for {healed - began:.1f} s at step {done}, going on "
                     f"after {time.monotonic() - healed:.1f} s: {said()[0][13:150]}")

    def test_cuts_between_two(self):
        both = lambda a, b: ((a, b), (b, a))
        with Network() as network, self.job_in(network) as head:
            head.wait_for_line("running: ")
            # A worker that has heard nothing for 3 s names the shard that it cannot reach. A shard that is silent for 3
            # s is named, too.
            self.cut(network, head, both("w1", "server-1"), "w1", "server 1")
            self.cut(network, head, both("coordinator", "server-1"), "server 1")
            self.cut(network, head, [("w0", "server-0")], "w0", "server 0")
            self.cut(network, head, [("server-0", "coordinator")], "server 0")
            self.cut(network, head, [("coordinator", "server-0"), ("coordinator", "server-1")], "server")
            self.cut(network, head, both("w0", "coordinator"), "w0", "its slots move")
            self.wait_for_steps(head, 15)
            self.assert_stops_with_same_bits(head)
            for server in self.others[:2]:
                self.assertEqual(server.wait(), 0, server.output)
        self.assertEqual({record["generation"] for record in recovery.records(self.path("run"))}, {1},
                         "a cut is no reason to go back")


if __name__ == "__main__":
    if os.geteuid() != 0 or shutil.which("ip") is None:
        print("SKIPPED: network namespaces take root and the program ip (iproute2)")
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    harness.main()
