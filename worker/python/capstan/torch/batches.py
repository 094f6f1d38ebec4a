"""Which samples a slot of a step has, and the loader that prefetches them.

An epoch is a permutation of the data set that depends on (seed, epoch). A global batch is the next piece of the epoch,
and a slot has a share of that piece. So the samples of (step, slot) are the same in every process and after every
restart.
"""
from __future__ import annotations

import functools
import hashlib
import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, Sampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

from capstan.errors import Invalid, Unsupported

try:
    import numpy
except ImportError:  # torch runs without numpy; then nothing draws from numpy's generator
    numpy = None  # type: ignore[assignment]


def key_of(*parts: object) -> int:
    """A 64-bit hash of all `parts`."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


def seed_generators(key: int) -> None:
    """Seeds torch's, numpy's and Python's generators with `key`."""
    torch.manual_seed(key)
    random.seed(key)
    if numpy is not None:
        numpy.random.seed([key & 0xFFFFFFFF, key >> 32])


@dataclass(frozen=True)
class Piece:
    """One batch: the part of a slot that is computed at a time."""

    step: int
    slot: int
    index: int  # number of the piece within the slot
    samples: tuple[int, ...]  # indices into the data set; empty: the slot has nothing to compute
    slot_samples: int  # samples in all pieces of the slot
    last: bool  # of the slot


class Plan:
    """The pieces of (step, slot)."""

    def __init__(self, *, seed: int, samples: int, global_batch: int, slots: int, batch: int, shuffle: bool,
                 drop_last: bool) -> None:
        self._seed, self._samples, self._global_batch, self._slots = seed, samples, global_batch, slots
        self._batch = batch
        self.steps_per_epoch = samples // global_batch if drop_last else -(-samples // global_batch)
        if self.steps_per_epoch == 0:
            raise Invalid(f"the data set has {samples} samples, fewer than job.global_batch = {global_batch}, and the "
                          "loader drops the last batch")
        # Caches only two epochs, because a permutation is as long as the data set.
        self._order = functools.lru_cache(maxsize=2)(self._permutation if shuffle else lambda _: range(samples))

    def _permutation(self, epoch: int) -> list[int]:
        generator = torch.Generator().manual_seed(key_of("epoch", self._seed, epoch))
        return torch.randperm(self._samples, generator=generator).tolist()  # type: ignore[no-any-return]

    def _share(self, within: int, slot: int) -> tuple[int, int]:
        """The range of the epoch's order that `slot` has in the epoch's step number `within`."""
        begin = within * self._global_batch
        count = min(self._samples - begin, self._global_batch)
        first, end = (begin + count * part // self._slots for part in (slot, slot + 1))
        return first, end

    def samples_in(self, step: int) -> int:
        """The samples of all slots in this step."""
        begin = step % self.steps_per_epoch * self._global_batch
        return min(self._samples - begin, self._global_batch)

    def batches_per_epoch(self, slots: Sequence[int]) -> int:
        """How many batches these slots have in an epoch."""
        def batches(within: int) -> int:
            shares = (self._share(within, slot) for slot in slots)
            return sum(-(-(end - first) // self._batch) for first, end in shares)

        return (self.steps_per_epoch - 1) * batches(0) + batches(self.steps_per_epoch - 1)

    def pieces(self, step: int, slot: int) -> Iterator[Piece]:
        epoch, within = divmod(step, self.steps_per_epoch)
        first, end = self._share(within, slot)
        samples = self._order(epoch)[first:end]
        for index, at in enumerate(range(0, max(len(samples), 1), self._batch)):
            yield Piece(step, slot, index, tuple(samples[at:at + self._batch]), len(samples),
                        at + self._batch >= len(samples))


class _Batches(torch.utils.data.Dataset):  # type: ignore[type-arg]
    """The user's data set, indexed by pieces. Its random choices (augmentation) depend only on the piece."""

    def __init__(self, data: Any, collate: Callable[[list[Any]], Any], seed: int) -> None:
        self._data, self._collate, self._seed = data, collate, seed

    def __getitem__(self, piece: Piece) -> tuple[Piece, Any]:
        seed_generators(key_of("data", self._seed, piece.step, piece.slot, piece.index))
        return piece, self._collate([self._data[index] for index in piece.samples])


class _Sequence(Sampler):  # type: ignore[type-arg]
    """The expected next pieces: the same slots in each step."""

    def __init__(self, plan: Plan, first: Piece, slots: list[int], steps: int) -> None:
        self._plan, self._first, self._slots, self._steps = plan, first, slots, steps

    def __iter__(self) -> Iterator[Piece]:
        pieces = (piece for step in range(self._first.step, self._steps) for slot in self._slots
                  for piece in self._plan.pieces(step, slot) if piece.samples)
        return itertools.dropwhile(lambda piece: piece != self._first, pieces)


def _as_it_is(item: Any) -> Any:
    return item


def _shuffles(loader: DataLoader[Any]) -> bool:
    sampler = loader.sampler
    if isinstance(sampler, DistributedSampler):
        return bool(sampler.shuffle)
    samples = len(loader.dataset)  # type: ignore[arg-type]
    if isinstance(sampler, (RandomSampler, SequentialSampler)) and len(sampler) != samples:
        raise Unsupported(f"the loader's sampler chooses {len(sampler)} of {samples} samples: give it a data set of "
                          "those, a torch.utils.data.Subset")
    if type(sampler) is RandomSampler and not sampler.replacement:
        return True
    if type(sampler) is SequentialSampler:
        return False
    raise Unsupported(f"the loader's sampler is {type(sampler).__name__}: the job chooses the samples, in the data "
                      "set's order or shuffled; give it a loader with shuffle=True or False, or ask for work yourself "
                      "with trainer.slots()")


def batch_size_of(loader: DataLoader[Any]) -> int:
    """Returns the loader's batch_size. Refuses a loader whose samples have no numbers by which the job could choose
    them."""
    if isinstance(loader.dataset, IterableDataset) or loader.batch_size is None:
        raise Unsupported("the loader has no samples by number (an IterableDataset, or batches of its own): ask for work "
                          "yourself with trainer.slots()")
    return loader.batch_size


class Fetcher:
    """Returns the batches of pieces, prefetched by the worker processes of the script's loader, if it has any."""

    def __init__(self, loader: DataLoader[Any], *, seed: int, steps: int, global_batch: int, slots: int) -> None:
        batch = batch_size_of(loader)
        self._loader, self._seed, self._steps = loader, seed, steps
        self.samples = len(loader.dataset)  # type: ignore[arg-type]
        self.plan = Plan(seed=seed, samples=self.samples, global_batch=global_batch, slots=slots,
                         batch=batch, shuffle=_shuffles(loader), drop_last=loader.drop_last)
        self.fingerprint = (self.samples, batch, _shuffles(loader), loader.drop_last)
        self._ahead: Iterator[tuple[Piece, Any]] = iter(())

    def fetch(self, piece: Piece, slots: list[int]) -> Any:
        """`slots`: this process's slots in the piece's step."""
        found, batch = next(self._ahead, (None, None))
        if found != piece:  # the first piece, or slots have moved, or the job went back
            self._ahead = self._begin(piece, slots)
            found, batch = next(self._ahead)
        assert found == piece
        return batch

    def _begin(self, piece: Piece, slots: list[int]) -> Iterator[tuple[Piece, Any]]:
        old = self._loader
        options: dict[str, Any] = {}
        if old.num_workers > 0:
            options = {"prefetch_factor": old.prefetch_factor, "multiprocessing_context": old.multiprocessing_context}
        loader: DataLoader[Any] = DataLoader(
            _Batches(old.dataset, old.collate_fn, self._seed), batch_size=None, collate_fn=_as_it_is,
            sampler=_Sequence(self.plan, piece, slots, self._steps), num_workers=old.num_workers,
            pin_memory=old.pin_memory, timeout=old.timeout, worker_init_fn=old.worker_init_fn, **options)
        return iter(loader)
