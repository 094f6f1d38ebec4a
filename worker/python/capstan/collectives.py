"""Calls that all members of a team of workers make together."""
from __future__ import annotations

import ctypes
import json
import math
import pickle
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from capstan import abi
from capstan.errors import Invalid
from capstan.handle import Handle, patiently, text_bytes
from capstan.numbers import TYPES, Numbers, is_tensor, opened

BYTES_MAX = 64 << 20  # that a member gives in a call
REDUCTIONS = ("sum", "mean", "min", "max", "product")
_LENGTH = struct.Struct("<I")
_FORMATS: tuple[Any, ...] = ("f", "d", "e", "", "i", "q", "B")  # of memoryview, by number of the type
_Values = TypeVar("_Values")


@dataclass(frozen=True)
class Team:
    """The workers that make collective calls together."""

    rank: int  # of this process, from 0
    ranks: int
    waiting: int = 0  # processes that wait for another team, as far as is known


class Collectives:
    """Collective calls. All members of the team make the same calls in the same order, after declare().

    A member gives at most 64 MiB in a call, and a team has at most 128 members. Values are reduced in the order of the
    ranks, so the bits depend on neither timing nor restarts of servers and of the coordinator. `seconds` is a deadline:
    Timeout names the members that are missing, and the same call, made again, goes on. Unreachable: a member is lost.
    Invalid: the members' calls differ, and the text names both. Both end the team: later calls fail alike until
    form_team(). Stale: the team, or the job, is over.
    """

    _handle: Handle
    _place: tuple[int, int] | None = None  # of connect(), or of capstan launch
    _has_team = False

    def form_team(self, rank: int | None = None, ranks: int = 0, *, seconds: float | None = None) -> Team:
        """Joins the next team. The first collective call does so by itself, with the rank of connect(), or else the
        index that `capstan launch` gives.

        With a rank, the team has `ranks` members. Without, it is of all current workers, at least cluster.min_workers:
        members of the team before keep their order, and others follow in the order of their names.
        """
        if (rank is None) != (ranks == 0) or not 0 <= (rank or 0) < max(ranks, 1):
            raise Invalid(f"rank {rank} of {ranks}: ranks are counted from 0 and below their number, and come with it")
        team = abi.Team()
        patiently(lambda left: self._handle.call("form_team", 0 if rank is None else rank + 1, ranks, left, team), seconds)
        self._has_team = True
        return Team(team.rank, team.ranks)

    def team(self) -> Team | None:
        """The present team; None: there is none. It waits for nothing."""
        team = abi.Team()
        self._handle.call("read_team", team)
        return Team(team.rank, team.ranks, team.waiting) if team.ranks else None

    def all_reduce(self, values: _Values, op: str = "sum", *, seconds: float | None = None) -> _Values:
        """Replaces `values` by those of all members reduced, number by number, and returns it. `op` is "sum", "mean",
        "min", "max" or "product". `values` is a writable buffer of numbers, such as a numpy array, or a torch tensor,
        of float32, float64, float16, bfloat16, int32, int64 or uint8. 16-bit numbers are added as float32 and rounded
        once; the sum of integers wraps around."""
        if op not in REDUCTIONS:
            raise Invalid(f"all_reduce with op={op!r}; it is one of {', '.join(REDUCTIONS)}")
        with opened("all_reduce", values) as numbers:
            _must_fit(f"all_reduce({op})", numbers, "for part in numpy.array_split(values.reshape(-1), {parts}): "
                                                    "client.all_reduce(part)")
            self._join(seconds)
            patiently(lambda left: self._handle.call("all_reduce", numbers.address or None, numbers.count,
                                                     numbers.type_number, REDUCTIONS.index(op), left), seconds)
        return values

    def broadcast(self, values: _Values, root: int = 0, *, seconds: float | None = None) -> _Values:
        """Replaces `values`, as all_reduce() takes them, by those of rank `root`, and returns it."""
        with opened("broadcast", values) as numbers:
            _must_fit("broadcast", numbers, "for part in numpy.array_split(values.reshape(-1), {parts}): "
                                            "client.broadcast(part, root)")
            self._join(seconds)
            patiently(lambda left: self._handle.call("broadcast", numbers.address or None, numbers.size, root, left),
                      seconds)
        return values

    def all_gather(self, values: Any, *, seconds: float | None = None) -> list[Any]:
        """Returns what each member gives, by rank. `values` is as in all_reduce(), or bytes; shapes may differ. A numpy
        array gives numpy arrays, a torch tensor tensors, bytes give bytes, any other buffer memoryviews."""
        if isinstance(values, bytes):
            return self._gather_bytes(values, "all_gather of bytes", seconds)
        with opened("all_gather", values, writable=False) as numbers:
            head = json.dumps(numbers.shape).encode()
            _must_fit("all_gather", numbers, "client.all_gather(part) for each part of a smaller array", len(head) + 4)
            given = _LENGTH.pack(len(head)) + head + numbers.copy()
            what = f"all_gather of {numbers.type}"
            return [_like(values, numbers, part) for part in self._gather_bytes(given, what, seconds)]

    def gather(self, values: Any, root: int = 0, *, seconds: float | None = None) -> list[Any] | None:
        """As all_gather(), for rank `root`; None in the other members."""
        everything = self.all_gather(values, seconds=seconds)
        if not 0 <= root < len(everything):
            raise Invalid(f"gather to rank {root}: the team has ranks 0 to {len(everything) - 1}")
        return everything if self._rank() == root else None

    def reduce_scatter(self, values: Any, op: str = "sum", *, seconds: float | None = None) -> Any:
        """Reduces as all_reduce() does, and returns this member's part of the result: the first extent of `values` is
        cut into as many equal parts as there are members."""
        self._join(seconds)
        team = self.team()
        extent = len(values)
        if team is not None and extent % team.ranks:
            raise Invalid(f"reduce_scatter of {extent} rows among {team.ranks} members: their number is to be a multiple "
                          "of the members'")
        copy = values.detach().clone() if is_tensor(values) else values.copy() if hasattr(values, "copy") else values[:]
        self.all_reduce(copy, op, seconds=seconds)
        share = extent // (team.ranks if team is not None else 1)
        rank = team.rank if team is not None else 0
        return copy[rank * share:(rank + 1) * share]

    def broadcast_object(self, value: Any = None, root: int = 0, *, seconds: float | None = None) -> Any:
        """Returns rank `root`'s value in every member. It travels as a pickle, and unpickling runs what the sender
        wrote: use it only in a job whose workers you trust."""
        self._join(seconds)
        given = pickle.dumps(value) if self._rank() == root else b""
        parts = self._gather_bytes(given, f"broadcast_object from rank {root}", seconds)
        if not 0 <= root < len(parts):
            raise Invalid(f"broadcast_object from rank {root}: the team has ranks 0 to {len(parts) - 1}")
        return value if self._rank() == root else pickle.loads(parts[root])

    def all_gather_object(self, value: Any, *, seconds: float | None = None) -> list[Any]:
        """Returns each member's value, by rank. They travel as pickles; see broadcast_object()."""
        return [pickle.loads(part) for part in
                self._gather_bytes(pickle.dumps(value), "all_gather_object", seconds)]

    def mean(self, metrics: Mapping[str, tuple[Any, Any]], *, seconds: float | None = None) -> dict[str, float]:
        """Returns sum / weight over all members for each name, from pairs (sum, weight): {"accuracy": (right, samples)}.
        Every member gives the same names in the same order. A weight of 0 in all gives NaN."""
        packed = struct.pack(f"<{2 * len(metrics)}d", *(float(value) for pair in metrics.values() for value in pair))
        parts = self._gather_bytes(packed, ("mean of " + ", ".join(metrics))[:256], seconds)
        rows = [struct.unpack(f"<{2 * len(metrics)}d", part) for part in parts]
        result = {}
        for index, name in enumerate(metrics):
            total, weight = (sum(row[2 * index + place] for row in rows) for place in (0, 1))
            result[name] = total / weight if weight else math.nan
        return result

    def _gather_bytes(self, given: bytes, what: str, seconds: float | None) -> list[bytes]:
        if len(given) > BYTES_MAX:
            raise Invalid(f"{what} of {len(given) >> 20} MiB, and a member gives at most 64 MiB in a call: make several "
                          "calls, each with a part")
        self._join(seconds)
        label = text_bytes("the call", what)
        patiently(lambda left: self._handle.call("all_gather", given, len(given), label, left), seconds)
        team = self.team()
        address, size = ctypes.c_void_p(), ctypes.c_uint64()
        parts = []
        for rank in range(team.ranks if team is not None else 0):
            self._handle.call("gathered", rank, address, size)
            parts.append(ctypes.string_at(address, size.value) if size.value else b"")
        return parts

    def _join(self, seconds: float | None) -> None:
        if not self._has_team:
            rank, ranks = self._place or (None, 0)
            self.form_team(rank, ranks, seconds=seconds)

    def _rank(self) -> int:
        team = self.team()
        return team.rank if team is not None else -1


def _must_fit(what: str, numbers: Numbers, line: str, more: int = 0) -> None:
    if numbers.size + more > BYTES_MAX:
        raise Invalid(f"{what} of {numbers.count} {numbers.type}, {numbers.size >> 20} MiB, and a member gives at most 64 "
                      f"MiB in a call: {line.format(parts=-(-numbers.size // BYTES_MAX))}")


def _like(values: Any, numbers: Numbers, part: bytes) -> Any:
    """A member's part of all_gather() as an object of the caller's kind."""
    (length,) = _LENGTH.unpack_from(part)
    shape = tuple(json.loads(part[_LENGTH.size:_LENGTH.size + length]))
    data = bytearray(part[_LENGTH.size + length:])
    if is_tensor(values):
        import torch
        kind = getattr(torch, TYPES[numbers.type_number])
        flat = torch.frombuffer(data, dtype=kind) if data else torch.empty(0, dtype=kind)
        return flat.reshape(shape).to(values.device)
    view = memoryview(data).cast(_FORMATS[numbers.type_number])
    if type(values).__module__ == "numpy":
        import numpy
        return numpy.frombuffer(data, dtype=values.dtype).reshape(shape)
    return view
