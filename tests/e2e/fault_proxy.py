#!/usr/bin/python3
"""A TCP proxy that injects network faults from a seed: fault_proxy.py --listen HOST:PORT --target HOST:PORT

Faults affect chunks as they pass, in one direction or both, for as long as they are set:
  latency     each chunk is delayed, by `seconds` and up to as much again
  bandwidth   `rate` bytes per second pass
  stall       nothing passes; waiting bytes pass later
  blackhole   nothing passes and incoming bytes are lost; the connection seems alive (half-open), and is cut at the end
  reset       connections are closed at once, with RST
  corrupt     one bit of every `every`-th chunk flips, except in handshakes
  truncate    every `every`-th chunk is cut in the middle, then the connection is closed
  handshake   connections are closed at once, and one bit in the handshake of each new connection flips
As a program it draws faults until it is killed; tests drive it from their own thread (FaultProxy.start).
"""
import argparse
import asyncio
import contextlib
import random
import socket
import struct
import threading

CHUNK = 64 << 10
HANDSHAKE = 160  # bytes of ZMTP's handshake, or a few more, in each direction
KINDS = ("latency", "bandwidth", "stall", "blackhole", "reset", "corrupt", "truncate", "handshake")
FORTH, BACK = "forth", "back"  # towards the target; from the target


class Fault:
    def __init__(self, kind, directions=(FORTH, BACK), seconds=0.05, rate=1 << 20, every=7):
        assert kind in KINDS, kind
        self.kind, self.directions, self.seconds, self.rate, self.every = kind, directions, seconds, rate, every

    def __str__(self):
        return f"{self.kind} {'+'.join(self.directions)}"


class Connection:
    """Both halves of one connection through the proxy."""

    def __init__(self, proxy, client, server):
        self.proxy, self.writers, self.doomed = proxy, (client[1], server[1]), False
        self.passed = {FORTH: 0, BACK: 0}  # bytes
        self.pumps = [asyncio.ensure_future(self.pump(client[0], server[1], FORTH)),
                      asyncio.ensure_future(self.pump(server[0], client[1], BACK))]

    async def pump(self, reader, writer, direction):
        with contextlib.suppress(ConnectionError, OSError, asyncio.CancelledError):
            while chunk := await reader.read(CHUNK):
                chunk = await self.proxy.pass_on(self, chunk, direction)
                if chunk is None:
                    break
                writer.write(chunk)
                await writer.drain()
        self.close()

    def close(self, abruptly=False):
        if self.doomed:
            return
        self.doomed = True
        for writer in self.writers:
            sock = writer.get_extra_info("socket")
            if abruptly and sock is not None:
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                writer.transport.abort()
            else:
                writer.close()
        for pump in self.pumps:
            if pump is not asyncio.current_task():
                pump.cancel()
        self.proxy.connections.discard(self)


class FaultProxy:
    def __init__(self, listen, target, seed, name=""):
        self.listen, self.target, self.name = listen, target, name
        self.random = random.Random(seed)
        self.connections = set()
        self.fault = None
        self.changed = asyncio.Event()
        self.chunks = 0
        self.counts = dict.fromkeys(KINDS, 0)
        self.bytes_passed = 0
        self.made = 0

    async def serve(self):
        self.server = await asyncio.start_server(self._accept, *self.listen)

    async def _accept(self, reader, writer):
        try:
            server = await asyncio.open_connection(*self.target)
        except OSError:
            writer.transport.abort()
            return
        self.made += 1
        self.connections.add(Connection(self, (reader, writer), server))

    def set_fault(self, fault):
        """Sets a fault; None: everything passes. Called on the loop's thread."""
        ended, self.fault = self.fault, fault
        self.changed.set()
        self.changed = asyncio.Event()
        if ended is not None and ended.kind == "blackhole":  # bytes are missing, so the stream cannot continue
            self._close_all(abruptly=True)
        if fault is not None and fault.kind in ("reset", "handshake"):
            self.counts["reset"] += len(self.connections)
            self._close_all(abruptly=True)

    def _close_all(self, abruptly):
        for connection in list(self.connections):
            connection.close(abruptly)

    async def pass_on(self, connection, chunk, direction):
        """The chunk to pass on; None if the connection ends here."""
        self.chunks += 1
        while (fault := self.fault) is not None and direction in fault.directions:
            if fault.kind == "stall":
                self.counts["stall"] += 1
                await self.changed.wait()
                continue
            if fault.kind == "blackhole":
                self.counts["blackhole"] += 1
                chunk = b""
            elif fault.kind == "latency":
                self.counts["latency"] += 1
                await asyncio.sleep(fault.seconds * (1 + self.random.random()))
            elif fault.kind == "bandwidth":
                self.counts["bandwidth"] += 1
                await asyncio.sleep(len(chunk) / fault.rate)
            elif fault.kind == "corrupt" and self.chunks % fault.every == 0:
                chunk = self._flip("corrupt", chunk, max(0, HANDSHAKE - connection.passed[direction]), len(chunk))
            elif fault.kind == "handshake":
                chunk = self._flip("handshake", chunk, 0, min(HANDSHAKE - connection.passed[direction], len(chunk)))
            elif fault.kind == "truncate" and self.chunks % fault.every == 0:
                self.counts["truncate"] += 1
                connection.writers[direction == FORTH].write(chunk[:len(chunk) // 2])
                return None
            break
        self.bytes_passed += len(chunk)
        connection.passed[direction] += len(chunk)
        return chunk

    def _flip(self, kind, chunk, begin, end):
        """Flips one bit in one of the bytes from `begin` to `end`, if there are any."""
        if begin >= end:
            return chunk
        self.counts[kind] += 1
        changed = bytearray(chunk)
        changed[self.random.randrange(begin, end)] ^= 1 << self.random.randrange(8)
        return bytes(changed)


class ProxyThread:
    """Proxies on one loop, in one thread."""

    def __init__(self, proxies):
        self.proxies = proxies
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    def __enter__(self):
        self.thread.start()
        for proxy in self.proxies:
            asyncio.run_coroutine_threadsafe(proxy.serve(), self.loop).result(10)
        return self

    def __exit__(self, *_):
        for proxy in self.proxies:
            self.loop.call_soon_threadsafe(proxy._close_all, True)
            self.loop.call_soon_threadsafe(proxy.server.close)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def set_fault(self, proxy, fault):
        self.loop.call_soon_threadsafe(proxy.set_fault, fault)


def random_fault(rng, kinds=KINDS):
    return Fault(rng.choice(kinds), rng.choice(((FORTH,), (BACK,), (FORTH, BACK))), seconds=rng.uniform(0.01, 0.1),
                 rate=rng.choice((1 << 18, 1 << 20, 1 << 22)), every=rng.choice((3, 11, 29)))


def address(text):
    host, port = text.rsplit(":", 1)
    return host, int(port)


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listen", required=True, type=address)
    parser.add_argument("--target", required=True, type=address)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", default=",".join(KINDS), help="comma-separated")
    parser.add_argument("--longest", type=float, default=2.0, help="seconds of one fault, and of the pause after it")
    arguments = parser.parse_args()
    proxy = FaultProxy(arguments.listen, arguments.target, arguments.seed)
    await proxy.serve()
    rng = random.Random(arguments.seed)
    while True:
        await asyncio.sleep(rng.uniform(0, arguments.longest))
        fault = random_fault(rng, arguments.faults.split(","))
        print(fault, flush=True)
        proxy.set_fault(fault)
        await asyncio.sleep(rng.uniform(0, arguments.longest))
        proxy.set_fault(None)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(main())
