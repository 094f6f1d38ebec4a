"""The order of the samples in each epoch, by the sampler of a script's loader."""
from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler
from torch.utils.data.distributed import DistributedSampler

from capstan.errors import Invalid, Unsupported

try:
    import numpy
except ImportError:  # torch runs without numpy; then nothing draws from numpy's generator
    numpy = None  # type: ignore[assignment]

_NO_NUMBERS = ("the loader has no samples by number ({why}), so the job cannot share them out: leave it out of prepare(), and have "
               "each process take its own samples, by trainer.rank; or take work from trainer.slots()")
_NOT_REPEATED = ("the loader's {name} gives another order when it is asked again for the same epoch with the same seeds, and a "
                 "process that starts again would train on other samples: draw from torch's, numpy's or Python's generator and "
                 "keep no count in it (set_epoch() is called); or take work from trainer.slots()")
_SHARES = ("the loader's {name} takes a share of the samples by itself, and the job shares them out: give the loader a sampler of "
           "all samples, or torch.utils.data.DistributedSampler, whose share is left out")
_OTHER_LENGTH = "the loader's {name} says that it gives {said} samples, and gave {gave}: make __len__() what __iter__() gives"


def key_of(*parts: object) -> int:
    """A 64-bit hash of all `parts`."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


def seed_generators(key: int) -> None:
    """Seeds torch's, numpy's and Python's generators with `key`."""
    torch.manual_seed(key)
    random.seed(key)
    if numpy is not None:
        numpy.random.seed([key & 0xFFFFFFFF, key >> 32])


@contextlib.contextmanager
def _seeded(key: int) -> Iterator[None]:
    """Seeds the generators for this block only."""
    states = torch.get_rng_state(), random.getstate(), numpy.random.get_state() if numpy is not None else None
    # torch.manual_seed() would also seed the generators of GPUs, which this block does not restore.
    torch.default_generator.manual_seed(key)
    random.seed(key)
    if numpy is not None:
        numpy.random.seed([key & 0xFFFFFFFF, key >> 32])
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        if numpy is not None:
            numpy.random.set_state(states[2])


@dataclass(frozen=True)
class Order:
    """`of(epoch)` are the numbers of an epoch's samples in the data set."""

    samples: int  # in an epoch
    name: str  # of the sampler; processes must agree on it
    of: Callable[[int], Any]


def batches_of(loader: DataLoader[Any]) -> tuple[int, bool]:
    """The size of the loader's batches, and whether it drops an incomplete last one."""
    if isinstance(loader.dataset, IterableDataset):
        raise Unsupported(_NO_NUMBERS.format(why="an IterableDataset"))
    if loader.batch_size is not None:
        return loader.batch_size, loader.drop_last
    if type(loader.batch_sampler) is BatchSampler:
        return loader.batch_sampler.batch_size, loader.batch_sampler.drop_last
    why = "no batches" if loader.batch_sampler is None else f"batches of {type(loader.batch_sampler).__name__}"
    raise Unsupported(_NO_NUMBERS.format(why=why))


def order_of(loader: DataLoader[Any], seed: int) -> Order:
    """`seed` is the job's."""
    sampler = loader.sampler if loader.batch_size is not None else loader.batch_sampler.sampler  # type: ignore[union-attr]
    samples = len(loader.dataset)  # type: ignore[arg-type]
    name = type(sampler).__name__
    if isinstance(sampler, DistributedSampler):
        if type(sampler).__iter__ is not DistributedSampler.__iter__:
            raise Unsupported(_SHARES.format(name=name))
        # Its global batches; which process has which sample of a batch is the job's matter.
        shuffles = bool(sampler.shuffle)
        return Order(samples, f"{name} {shuffles} {sampler.seed}",
                     _permuted(samples, lambda epoch: sampler.seed + epoch) if shuffles else lambda _: range(samples))
    if type(sampler) is RandomSampler and not sampler.replacement and sampler.num_samples == samples:
        return Order(samples, name, shuffled(samples, seed))
    if type(sampler) is SequentialSampler and len(sampler) == samples:
        return Order(samples, name, lambda _: range(samples))
    return _drawn(sampler, name, seed)


def shuffled(samples: int, seed: int) -> Callable[[int], list[int]]:
    """The orders of a loader with shuffle=True. `seed` is the job's."""
    return _permuted(samples, lambda epoch: key_of("epoch", seed, epoch))


def _permuted(samples: int, seed_of: Callable[[int], int]) -> Callable[[int], list[int]]:
    def permutation(epoch: int) -> list[int]:
        generator = torch.Generator().manual_seed(seed_of(epoch))
        return torch.randperm(samples, generator=generator).tolist()  # type: ignore[no-any-return]

    return permutation


def _drawn(sampler: Any, name: str, seed: int) -> Order:
    """The order that the script's own sampler draws, with seeds that follow from the epoch."""
    samples = len(sampler)

    def draw(epoch: int) -> list[int]:
        key = key_of("sampler", seed, epoch)
        if isinstance(getattr(sampler, "generator", None), torch.Generator):
            sampler.generator.manual_seed(key)
        if hasattr(sampler, "set_epoch"):
            sampler.set_epoch(epoch)
        with _seeded(key):
            drawn = [int(index) for index in sampler]
        if len(drawn) != samples:
            raise Invalid(_OTHER_LENGTH.format(name=name, said=samples, gave=len(drawn)))
        return drawn

    first = draw(0)
    if first != draw(0):
        raise Unsupported(_NOT_REPEATED.format(name=name))
    return Order(samples, f"{name} {key_of(first)}", draw)
