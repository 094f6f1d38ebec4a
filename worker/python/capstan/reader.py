"""Follows a job without taking part in it: its progress, its newest weights, its optimizer's state."""
from __future__ import annotations

import ctypes
import functools
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from capstan import abi
from capstan.errors import Invalid
from capstan.handle import Handle, key_file_bytes, own_name, patiently, text_bytes
from capstan.tensors import Tensor, Tensors

STATES = ("gathering", "running", "done", "failed")


@dataclass(frozen=True)
class Progress:
    """A job's progress."""

    state: str  # one of STATES
    step: int  # the current step
    generation: int  # rises with each recovery, for example when the job goes back
    slot_count: int
    message: str  # why the job failed


@dataclass(frozen=True)
class Version:
    """One version of a job's weights. Its views are valid until the reader pulls again.

    In mode sync `step` is the step that computes with these weights, and all weights are of one version. In async and
    bounded it is a step that all slots had reached before, and each block is consistent in itself.
    """

    step: int
    generation: int
    done: bool  # this is the job's last version
    updates: int  # updates of these weights, without skipped steps; async, bounded: the fewest of a block
    grad_norm: float  # of the step that made these weights, as Work.grad_norm
    weights: Tensors
    state: dict[str, Tensors]  # by PyTorch's names, like "exp_avg"; empty unless requested


class Reader:
    """Reads a running job's weights. It belongs to one thread at a time, and to the process that connected it.

    Only the job's end waits for readers: a reader that asked within the last limits.lease before it has one more lease
    to read the last version.
    """

    def __init__(self, coordinator: str, name: str | None = None, *, join_seconds: float = 60.0,
                 key_file: str | None = None) -> None:
        named = name if name is not None else own_name()
        self._handle: Handle | None = Handle(abi.ReaderOptions(
            coordinator=text_bytes("the coordinator", coordinator), name=text_bytes("the reader's name", named),
            join_seconds=join_seconds, key_file=key_file_bytes(key_file)), "reader_")

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """From now on the job's end does not wait for this reader. Views that are still referenced stay valid."""
        self._handle = None

    @property
    def job_file(self) -> str:
        """The job file as canonical TOML."""
        text = ctypes.c_char_p()
        self._call("job_file", text)
        return (text.value or b"").decode()

    @functools.cached_property
    def job(self) -> dict[str, Any]:
        """The job file's sections."""
        return tomllib.loads(self.job_file)

    def progress(self, seconds: float | None = None) -> Progress:
        """Asks the coordinator. Timeout if it does not answer in time. None: waits until the coordinator counts as
        lost."""
        progress = abi.Progress()
        patiently(lambda slice_seconds: self._call("progress", slice_seconds, progress), seconds)
        return Progress(STATES[progress.state], progress.step, progress.generation, progress.slot_count,
                        (progress.message or b"").decode(errors="replace"))

    def pull(self, newer_than: int | None = None, *, optimizer_state: bool = False,
             seconds: float | None = None) -> Version | None:
        """Waits for a version of a later step than `newer_than` (None: any), and returns the newest one.

        Returns None when the job is done and has no newer version. Once the last version was pulled, that needs no
        answer from the servers, which end with the job. Timeout if none came in time. `seconds` None: waits as long as
        the job lives.
        """
        wish = abi.PullOptions(has_newer_than=newer_than is not None, newer_than=newer_than or 0,
                               optimizer_state=optimizer_state)
        pulled = abi.Pulled()
        patiently(lambda slice_seconds: self._call("pull", wish, slice_seconds, pulled), seconds)
        if pulled.nothing_newer:
            return None
        names = self.state_names if optimizer_state else ()
        state = {name: self._views("state", index) for index, name in enumerate(names)}
        return Version(pulled.step, pulled.generation, bool(pulled.done), pulled.updates, pulled.gradient_norm,
                       self._views("weights"), state)

    def follow(self, *, optimizer_state: bool = False) -> Iterator[Version]:
        """Yields newer versions up to the job's last. Steps rise; versions that come faster than they can be read are
        left out."""
        newer_than = None
        while (version := self.pull(newer_than, optimizer_state=optimizer_state)) is not None:
            yield version
            newer_than = version.step

    @functools.cached_property
    def state_names(self) -> tuple[str, ...]:
        """Names of the optimizer's state arrays, as in PyTorch."""
        count, name = ctypes.c_size_t(), ctypes.c_char_p()
        self._call("state_count", count)
        names = []
        for index in range(count.value):
            self._call("state_name", index, name)
            names.append((name.value or b"").decode())
        return tuple(names)

    @functools.cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """The job's tensors, in the order of their declaration; known once a version was pulled."""
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
           join_seconds: float = 60.0, key_file: str | None = None) -> Iterator[Version]:
    """Yields newer versions of the job at this address up to its last, as Reader.follow() does, with its own reader."""
    with Reader(coordinator, name, join_seconds=join_seconds, key_file=key_file) as reader:
        yield from reader.follow(optimizer_state=optimizer_state)
