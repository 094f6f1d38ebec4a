"""Which samples a slot of a step has, and the loader that prefetches them.

An epoch is a permutation of the data set that depends on (seed, epoch). A global batch is the next piece of the epoch,
and a slot has a share of that piece. So the samples of (step, slot) are the same in every process and after every
restart.
"""
from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, Sampler

from capstan.errors import Invalid
from capstan.torch import messages
from capstan.torch.orders import batches_of, key_of, order_of, seed_generators

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

    def __init__(self, order: Callable[[int], Sequence[int]], *, samples: int, global_batch: int, slots: int, batch: int,
                 drop_last: bool) -> None:
        """`order` gives the numbers of an epoch's samples."""
        self._samples, self._global_batch, self._slots = samples, global_batch, slots
        self._batch = batch
        self.steps_per_epoch = samples // global_batch if drop_last else -(-samples // global_batch)
        if self.steps_per_epoch == 0:
            raise Invalid(f"the data set has {samples} samples, fewer than job.global_batch = {global_batch}, and the "
                          "loader drops the last batch")
        # Caches only two epochs, because a permutation is as long as the data set.
        self._order = functools.lru_cache(maxsize=2)(order)

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


def _micro_batch(batch_size: int, accumulates: int, global_batch: int, slots: int, samples: int) -> int:
    """The size of a slot's batches where the loop accumulates. `samples`: in the loader's batches of an epoch."""
    parts = slots * accumulates
    if global_batch != batch_size * accumulates or global_batch % parts:
        wanted = -(-batch_size // slots) * parts
        raise Invalid(messages.MICRO_BATCHES.format(batch_size=batch_size, count=accumulates, slots=slots, now=global_batch,
                                                    size=wanted // accumulates, wanted=wanted))
    if lost := samples % global_batch:
        raise Invalid(messages.LAST_GROUP.format(count=accumulates, lost=lost, samples=samples, global_batch=global_batch,
                                                 whole=samples - lost))
    return global_batch // parts


def _mover_of(loader: DataLoader[Any]) -> Callable[[Any], Any]:
    """Puts a batch where the loader would. Accelerate's sends its batches to a device; others leave that to the script."""
    device, module = getattr(loader, "device", None), sys.modules.get("accelerate.data_loader")
    if device is None or module is None or not isinstance(loader, (module.DataLoaderShard, module.DataLoaderDispatcher)):
        return _as_it_is
    return lambda batch: module.send_to_device(batch, device, non_blocking=getattr(loader, "_non_blocking", False))


def _as_it_is(item: Any) -> Any:
    return item


class Fetcher:
    """Returns the batches of pieces, prefetched by the worker processes of the script's loader, if it has any."""

    def __init__(self, loader: DataLoader[Any], *, seed: int, steps: int, global_batch: int, slots: int,
                 accumulates: int = 1) -> None:
        batch, drop_last = batches_of(loader)
        order = order_of(loader, seed)
        if accumulates > 1:
            samples = order.samples - order.samples % batch if drop_last else order.samples
            batch = _micro_batch(batch, accumulates, global_batch, slots, samples)
        self._loader, self._seed, self._steps = loader, seed, steps
        self._move = _mover_of(loader)
        self.batch_size, self.samples = batch, order.samples
        self.plan = Plan(order.of, samples=order.samples, global_batch=global_batch, slots=slots, batch=batch, drop_last=drop_last)
        self.fingerprint = (order.samples, batch, order.name, drop_last)
        self._ahead: Iterator[tuple[Piece, Any]] = iter(())

    def fetch(self, piece: Piece, slots: list[int]) -> Any:
        """`slots`: this process's slots in the piece's step."""
        found, batch = next(self._ahead, (None, None))
        if found != piece:  # the first piece, or slots have moved, or the job went back
            self._ahead = self._begin(piece, slots)
            found, batch = next(self._ahead)
        assert found == piece
        return self._move(batch)

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
