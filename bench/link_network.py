"""Network namespaces with limited links: one for each process of a job, joined by veth pairs to a bridge in a namespace
of its own. tbf on both ends of a pair limits what its process sends and, separately, what it receives.

The machine's own network is not changed. Names contain the id of the process that made them, so that a later run
can remove what a killed run has left.
"""
import contextlib
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

PREFIX = "capstanlink"
PORT_OF_CHECK = 6999
CHUNK = 1 << 20
# Lengths of queues in milliseconds. A switch has a short one and drops packets that do not fit; a sender's own network
# stack has a long one, in which packets wait.
QUEUE_OF_SWITCH, QUEUE_OF_SENDER = 20, 1000
SETTLING = 0.3  # seconds until congestion control has adapted to the link
KILL_SECONDS = 10  # limit for a killed process to end


def missing():
    """Returns why this process cannot make namespaces; empty: it can."""
    if os.geteuid() != 0:
        return "network namespaces take root"
    programs = [name for name in ("ip", "tc") if shutil.which(name) is None]
    return f"no program {' and '.join(programs)} here (Debian: iproute2)" if programs else ""


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def ip(*arguments, inside=None):
    return run("ip", *(["-n", inside] if inside else []), *arguments)


def remove(space):
    """Removes the namespace and all processes in it."""
    with contextlib.suppress(RuntimeError):
        for pid in run("ip", "netns", "pids", space).split():
            with contextlib.suppress(ProcessLookupError):
                process = os.pidfd_open(int(pid))
                signal.pidfd_send_signal(process, signal.SIGKILL)
                select.select([process], [], [], KILL_SECONDS)  # waits for its end
                os.close(process)
    with contextlib.suppress(RuntimeError):
        ip("netns", "del", space)


def spaces(pid=None):
    """Returns (name, id of the process that made it) of the namespaces made by process `pid`, or by any run."""
    found = re.findall(rf"^({PREFIX}(\d+)-\S+)", ip("netns", "list"), re.M)
    return [(name, int(maker)) for name, maker in found if pid is None or int(maker) == pid]


def remove_leftovers():
    """Removes namespaces whose maker no longer runs."""
    for name, maker in spaces():
        if not os.path.exists(f"/proc/{maker}"):
            remove(name)


def tbf_of(bits, queue_ms):
    """Returns tc's arguments for a limit of `bits` per second, with bursts of a millisecond and a queue of `queue_ms`."""
    burst = max(16 << 10, int(bits / 8 * 0.001))
    return ["tbf", "rate", f"{int(bits)}bit", "burst", f"{burst}b", "latency", f"{queue_ms}ms"]


class Network:
    """A network with a namespace for each of `members`. Its links have no limit before limit() is called."""

    def __init__(self, members):
        self.members = list(members)

    def space(self, member):
        return f"{PREFIX}{os.getpid()}-{member}"

    def address(self, member):
        return f"10.214.0.{self.members.index(member) + 1}"

    def __enter__(self):
        remove_leftovers()
        try:
            self._make("hub")
            ip("link", "add", "bridge", "type", "bridge", inside=self.space("hub"))
            ip("link", "set", "bridge", "up", inside=self.space("hub"))
            for index, member in enumerate(self.members):
                self._join(f"m{index}", member)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make(self, member):
        ip("netns", "add", self.space(member))
        ip("link", "set", "lo", "up", inside=self.space(member))

    def _join(self, port, member):
        hub, space = self.space("hub"), self.space(member)
        self._make(member)
        ip("link", "add", port, "netns", hub, "type", "veth", "peer", "name", "eth0", "netns", space)
        ip("addr", "add", self.address(member) + "/24", "dev", "eth0", inside=space)
        ip("link", "set", port, "master", "bridge", "up", inside=hub)
        ip("link", "set", "eth0", "up", inside=space)

    def __exit__(self, *_):
        held = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
        for name, _maker in spaces(os.getpid()):
            remove(name)
        for number, handler in held.items():
            signal.signal(number, handler)

    def limit(self, bits):
        """Limits every member's sending and receiving to `bits` per second; None removes the limits."""
        for index, member in enumerate(self.members):
            self._limit(self.space("hub"), f"m{index}", bits, QUEUE_OF_SWITCH)
            self._limit(self.space(member), "eth0", bits, QUEUE_OF_SENDER)

    @staticmethod
    def _limit(space, device, bits, queue_ms):
        if bits is not None:
            run("tc", "-n", space, "qdisc", "replace", "dev", device, "root", *tbf_of(bits, queue_ms))
        elif "tbf" in run("tc", "-n", space, "qdisc", "show", "dev", device):
            run("tc", "-n", space, "qdisc", "del", "dev", device, "root")

    def sent(self, member):
        """Returns how many bytes a member has sent so far, headers included."""
        (link,) = json.loads(ip("-json", "-statistics", "link", "show", "dev", "eth0", inside=self.space(member)))
        return link["stats64"]["tx"]["bytes"]

    def command(self, member, *words):
        return ["ip", "netns", "exec", self.space(member), *words]

    def measured(self, sender, receiver, seconds=1.0):
        """Returns the bits per second that one plain socket carries from one member to another."""
        python = [sys.executable, "-B", os.path.abspath(__file__)]
        sink = subprocess.Popen(self.command(receiver, *python, "sink", self.address(receiver)), stdout=subprocess.PIPE,
                                text=True)
        try:
            sink.stdout.readline()  # waits until it listens
            run(*self.command(sender, *python, "source", self.address(receiver), str(SETTLING + seconds)))
            return float(sink.communicate(timeout=30)[0])
        finally:
            sink.kill()
            sink.communicate()


def sink(address):
    """Receives from one connection. Prints the bits per second that arrived, without the first SETTLING seconds."""
    with socket.create_server((address, PORT_OF_CHECK)) as listener:
        print("listening", flush=True)
        listener.settimeout(30)
        connection, _ = listener.accept()
    buffer = bytearray(CHUNK)
    begin, end, counted = time.monotonic() + SETTLING, None, 0
    with connection:
        connection.settimeout(30)
        while size := connection.recv_into(buffer):
            end = time.monotonic()
            counted = counted + size if end > begin else 0
    print(counted * 8 / (end - begin))


def source(address, seconds):
    with socket.create_connection((address, PORT_OF_CHECK), timeout=30) as connection:
        block, end = bytes(CHUNK), time.monotonic() + float(seconds)
        while time.monotonic() < end:
            connection.sendall(block)


if __name__ == "__main__":
    {"sink": sink, "source": source}[sys.argv[1]](*sys.argv[2:])
