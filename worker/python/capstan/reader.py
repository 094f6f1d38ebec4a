"""Following a job without taking part in it: its newest weights, its optimizer's state, how far it is."""
from __future__ import annotations

import ctypes
import functools
import os
import socket
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from capstan import abi
from capstan.errors import Invalid
from capstan.handle import Handle, patiently, text_bytes
from capstan.tensors import Tensor, Tensors

STATES = ("gathering", "running", "done", "failed")


@dataclass(frozen=True)
class Progress:
    """How far a job is."""

    state: str  # one of STATES
    step: int  # under way
    generation: int  # one history of the job; rises when it went back to an earlier step
    slot_count: int
    message: str  # why it failed


@dataclass(frozen=True)
class Version:
    """One version of a job's weights. Its views show it until the reader pulls again.

    In mode sync `step` is the one that computes with these weights, and all of them are of one version; in the others
    all slots had reached it before, and each block of tensors is whole.
    """

    step: int
    generation: int
    done: bool  # the job's last
    updates: int  # that the weights have had: skipped steps are none; async, bounded: the block with the fewest
    weights: Tensors
    state: dict[str, Tensors]  # by PyTorch's names, like "exp_avg"; empty unless it was asked for


class Reader:
    """Reads a running job's weights. It belongs to one thread at a time, and to the process that connected it.

    A job never waits for a reader, but for its end: one that asked within the job's limits.lease has as long again to
    read the last version.
    """

    def __init__(self, coordinator: str, name: str | None = None, *, join_seconds: float = 60.0) -> None:
        named = name if name is not None else f"{socket.gethostname()}-{os.getpid()}"
        self._handle: Handle | None = Handle(abi.ReaderOptions(
            coordinator=text_bytes("the coordinator", coordinator), name=text_bytes("the reader's name", named),
            join_seconds=join_seconds), "reader_")

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """The job's end does not wait for this reader any more; views that are still held stay valid."""
        self._handle = None

    @property
    def job_file(self) -> str:
        """Canonical TOML."""
        text = ctypes.c_char_p()
        self._call("job_file", text)
        return (text.value or b"").decode()

    @functools.cached_property
    def job(self) -> dict[str, Any]:
        """The job file's sections."""
        return tomllib.loads(self.job_file)

    def progress(self, seconds: float | None = None) -> Progress:
        """Asks the coordinator; Timeout when it does not answer in time (None: while it may still live)."""
        progress = abi.Progress()
        patiently(lambda slice_seconds: self._call("progress", slice_seconds, progress), seconds)
        return Progress(STATES[progress.state], progress.step, progress.generation, progress.slot_count,
                        (progress.message or b"").decode(errors="replace"))

    def pull(self, newer_than: int | None = None, *, optimizer_state: bool = False,
             seconds: float | None = None) -> Version | None:
        """The newest version of a later step than `newer_than` (None: any), once there is one.

        None when the job is done and has no newer one; once the last one was pulled, the reader knows so by itself,
        for servers end with the job. Timeout when none came in time (None: as long as the job lives).
        """
        wish = abi.PullOptions(has_newer_than=newer_than is not None, newer_than=newer_than or 0,
                               optimizer_state=optimizer_state)
        pulled = abi.Pulled()
        patiently(lambda slice_seconds: self._call("pull", wish, slice_seconds, pulled), seconds)
        if pulled.nothing_newer:
            return None
        names = self.state_names if optimizer_state else ()
        state = {name: self._views("state", index) for index, name in enumerate(names)}
        return Version(pulled.step, pulled.generation, bool(pulled.done), pulled.updates, self._views("weights"),
                       state)

    def follow(self, *, optimizer_state: bool = False) -> Iterator[Version]:
        """Each newer version that can be had, to the job's last. Steps rise; those that come too fast are left out."""
        newer_than = None
        while (version := self.pull(newer_than, optimizer_state=optimizer_state)) is not None:
            yield version
            newer_than = version.step

    @functools.cached_property
    def state_names(self) -> tuple[str, ...]:
        """What the job's optimizer keeps for each weight, by PyTorch's names."""
        count, name = ctypes.c_size_t(), ctypes.c_char_p()
        self._call("state_count", count)
        names = []
        for index in range(count.value):
            self._call("state_name", index, name)
            names.append((name.value or b"").decode())
        return tuple(names)

    @functools.cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """The job's, in the order of their declaration; known once a version was pulled."""
        count, row = ctypes.c_size_t(), abi.ReaderTensor()
        self._call("tensor_count", count)
        tensors = []
        for index in range(count.value):
            self._call("read_tensor", index, row)
            tensors.append(Tensor(row.name.decode(), tuple(row.shape[:row.dimensions])))
        return tuple(tensors)

    def _call(self, name: str, *arguments: object) -> None:
        if self._handle is None:
            raise Invalid("the reader is closed; connect another one")
        self._handle.call(name, *arguments)

    def _views(self, array: str, *index: int) -> Tensors:
        address = ctypes.c_void_p()
        self._call(array, *index, address)
        assert address.value is not None
        return Tensors(self.tensors, address.value, self._handle, writable=False)


def follow(coordinator: str, name: str | None = None, *, optimizer_state: bool = False,
           join_seconds: float = 60.0) -> Iterator[Version]:
    """Each newer version of the job at "host:port" that can be had, to its last; Reader.follow() with a reader."""
    with Reader(coordinator, name, join_seconds=join_seconds) as reader:
        yield from reader.follow(optimizer_state=optimizer_state)
