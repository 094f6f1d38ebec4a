"""A stranger that speaks ZMTP 3.1 byte by byte, and what it can do with that to a process that listens."""
import contextlib
import os
import selectors
import socket
import struct
import threading
import time

import harness

MORE, LARGE, COMMAND = 1, 2, 4
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01NULL" + bytes(48)
CURVE_GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01CURVE" + bytes(47)
# The first number that a ROUTER deals out as a routing id, in a process that has drawn no random numbers before.
FIRST_DEALT = 0x6B8B4567
NAME = b"\xc0" + bytes(7)  # a routing id as a capstan process would draw it


def frame(contents=b"", flags=0):
    if len(contents) > 255:
        return struct.pack(">BQ", flags | LARGE, len(contents)) + contents
    return struct.pack(">BB", flags, len(contents)) + contents


def ready(identity=b"", *more):
    properties = [(b"Socket-Type", b"DEALER"), (b"Identity", identity), *more]
    return frame(b"\5READY" + b"".join(bytes([len(name)]) + name + struct.pack(">I", len(value)) + value
                                       for name, value in properties), COMMAND)


def ping(context=b""):
    return frame(b"\4PING\0\0" + context, COMMAND)


class Peer:
    """A connection. What it sends after the other end has closed is lost without an error."""

    def __init__(self, address, hello):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=harness.DEADLINE)
        self.send(hello)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        with contextlib.suppress(ConnectionError):
            self.socket.sendall(data)

    def read_until(self, text):
        """Reads until `text` comes, or to the end. Returns what came."""
        received = b""
        with contextlib.suppress(ConnectionError):
            while (not text or text not in received) and (data := self.socket.recv(4096)):
                received += data
        return received

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def connected(address, identity=b""):
    """Returns a peer whose handshake is done on both sides. A message before that would end the connection."""
    peer = Peer(address, GREETING + ready(identity))
    peer.read_until(b"READY")
    return peer


class Crowd:
    """Many connections to each of some addresses that are held: their PINGs are answered. Every second one sends something."""

    def __init__(self, addresses, count):
        self.sockets, self.ended, self.lock = selectors.DefaultSelector(), threading.Event(), threading.Lock()
        self.thread = threading.Thread(target=self._hold)
        self.thread.start()
        for address in addresses:
            with contextlib.suppress(TimeoutError):  # a process that accepts no more
                for number in range(count):
                    self._add(address, [number % 2 == 1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        for key in list(self.sockets.get_map().values()):
            key.fileobj.close()
        self.sockets.close()

    def _add(self, address, sends):
        host, port = address.rsplit(":", 1)
        connection = socket.create_connection((host, int(port)), timeout=harness.patient(5))
        with contextlib.suppress(ConnectionError):
            connection.sendall(GREETING + ready())
        connection.setblocking(False)
        with self.lock:
            self.sockets.register(connection, selectors.EVENT_READ, sends)

    def _hold(self):
        while not self.ended.is_set():
            with self.lock:
                readable = self.sockets.select(0)
                for key, _ in readable:
                    self._answer(key)
            if not readable:
                self.ended.wait(0.01)

    def _answer(self, key):
        try:
            received = key.fileobj.recv(65536)
            if b"READY" in received and key.data.pop():
                key.fileobj.sendall(frame(b"x"))
            if b"PING" in received:
                key.fileobj.sendall(frame(b"\4PONG", COMMAND))
        except BlockingIOError:
            return
        except ConnectionError:
            received = b""
        if not received:
            self.sockets.unregister(key.fileobj)
            key.fileobj.close()


def flood(address, connections, total, rate=None):
    """Sends `total` bytes over so many connections at a time: frames and commands without end, with and without keys. A
    connection that is closed is made again. `rate`: bytes a second; None: as fast as they are taken. Returns how often a
    connection was made."""
    openings = [GREETING + ready(), CURVE_GREETING, CURVE_GREETING + frame(b"\5HELLO" + bytes(194), COMMAND), GREETING]
    bodies = [b"\1\0" * 8192, ping() * 4096, frame(bytes(1 << 16), MORE), frame(bytes(200), COMMAND) * 64]
    peers, made, sent, begun = [None] * connections, 0, 0, time.monotonic()
    try:
        while sent < total:
            if rate is not None:
                time.sleep(max(0, begun + sent / rate - time.monotonic()))
            for number in range(connections):
                if peers[number] is None:
                    peers[number] = Peer(address, openings[number % 4])
                    peers[number].socket.setblocking(False)
                    made += 1
                try:
                    sent += peers[number].socket.send(bodies[number // 4 % 4])
                except BlockingIOError:
                    sent += 1  # so that peers that read nothing do not make this endless
                except ConnectionError:
                    peers[number].socket.close()
                    peers[number] = None
    finally:
        for peer in filter(None, peers):
            peer.socket.close()
    return made


# ---- what it can do: each function attacks one address once

def claim_routing_ids(address):
    """Claims the ids that are dealt out next, and has some dealt out."""
    with contextlib.ExitStack() as stack:
        for number in range(FIRST_DEALT, FIRST_DEALT + 40):
            stack.enter_context(connected(address, struct.pack(">BI", 0, number))).send(frame(b"x"))
        for _ in range(20):
            stack.enter_context(connected(address)).send(frame(b"x"))


def take_over_and_reset(address):
    """Takes over its own connection, and resets it when it has no queue any more."""
    first = connected(address, NAME)
    first.send(frame(b"x"))
    with connected(address, NAME) as second:
        second.send(frame(b"x"))
        with connected(address):  # so that the other end has noticed
            first.send(frame(b"y") * 100)
            first.reset()


def fill_queue_and_reset(address):
    """Sends more than the other end reads in that time, with PINGs in between, and resets the connection."""
    peer = connected(address, NAME[:4] + os.urandom(4))
    peer.send((frame(b"x") * 500 + ping()) * 100)
    peer.reset()


def send_short_pings(address):
    for command in b"\4PING", b"\4PING\0", b"\4PIN", b"":
        with connected(address) as peer:
            peer.send(frame(command, COMMAND))


def flood_with_commands(address):
    with connected(address) as peer:
        for command in b"\4PING\0\1" + bytes(16), b"\7UNKNOWN" + bytes(40), b"\x09SUBSCRIBE":
            peer.send(frame(command, COMMAND) * 20_000)


def send_endless_message(address):
    with connected(address) as peer:
        for _ in range(20):
            peer.send(frame(flags=MORE) * 10_000)


def send_large_handshake(address):
    for hello in ready(bytes([200]) * 300), frame(b"\5READY" + bytes(8 << 20), COMMAND):
        with Peer(address, GREETING + hello) as peer:
            peer.read_until(b"READY")


def speak_other_versions(address):
    """Also a message before the handshake."""
    signature = GREETING[:10]
    for hello in signature + b"\1\5\0\0", signature + b"\0\5\0\0", b"\1\0\4\0abc", b"GET / HTTP/1.1\r\n\r\n", GREETING:
        with Peer(address, hello + frame(b"x")) as peer:
            peer.read_until(None)


ATTACKS = (claim_routing_ids, take_over_and_reset, fill_queue_and_reset, send_short_pings, flood_with_commands,
           send_endless_message, send_large_handshake, speak_other_versions)
