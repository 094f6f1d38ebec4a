"""Training that goes on when processes are lost or join: run(), states and the sampler, as Horovod documents them.

    state = hvd.elastic.TorchState(model, optimizer, epoch=0, batch=0)

    @hvd.elastic.run
    def train(state): ...
"""
from __future__ import annotations

import copy
import functools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

import torch

from capstan.horovod.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from capstan.horovod.functions import (allgather_object, broadcast_object, broadcast_optimizer_state,
                                       broadcast_parameters)
from capstan.horovod.process import process, rank, size

__all__ = ["ElasticSampler", "HorovodInternalError", "HostsUpdatedInterrupt", "ObjectState", "State", "TorchState", "run"]


class State:
    """The state from which training goes on. commit() saves it in memory; a process that is lost takes the others back to it."""

    def __init__(self, bcast_object: Callable[..., Any] | None = None, get_rank: Callable[[], int] | None = None) -> None:
        self._bcast_object = bcast_object or broadcast_object
        self._rank = get_rank or rank
        self._reset_callbacks: list[Callable[[], object]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], object]]) -> None:
        """They are called when another team has formed, for example to set the learning rate by hvd.size()."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Saves the state, and raises HostsUpdatedInterrupt if a process waits to take part. Call it every few batches:
        what was done since the last call is done again after a loss."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt, in all processes, if one waits to take part."""
        team = process.client.team() if process.client is not None else None
        if self._bcast_object(team is not None and team.waiting > 0):
            raise HostsUpdatedInterrupt()

    def save(self) -> None:
        raise NotImplementedError

    def restore(self) -> None:
        raise NotImplementedError

    def sync(self) -> None:
        raise NotImplementedError

    def reset(self) -> None:
        """Called when another team has formed."""


class ObjectState(State):
    """A state of objects, which are its attributes: ObjectState(hvd.broadcast_object, hvd.rank, epoch=0)."""

    def __init__(self, bcast_object: Callable[..., Any] | None = None, get_rank: Callable[[], int] | None = None,
                 **kwargs: Any) -> None:
        super().__init__(bcast_object, get_rank)
        self._saved = dict(kwargs)
        for name, value in kwargs.items():
            setattr(self, name, value)

    def save(self) -> None:
        self._saved = {name: copy.deepcopy(getattr(self, name)) for name in self._saved}

    def restore(self) -> None:
        for name, value in self._saved.items():
            setattr(self, name, copy.deepcopy(value))

    def sync(self) -> None:
        if self._saved:
            self._saved = self._bcast_object({name: getattr(self, name) for name in self._saved})
            self.restore()


class TorchState(ObjectState):
    """The state of a model, an optimizer, samplers and objects. Rank 0's is the first one, and that of processes which
    join later."""

    def __init__(self, model: Any = None, optimizer: Any = None, **kwargs: Any) -> None:
        given = {name: value for name, value in {"model": model, "optimizer": optimizer, **kwargs}.items()
                 if value is not None}
        self._parts = {name: part for name, value in given.items() if (part := _part_of(value)) is not None}
        super().__init__(**{name: value for name, value in given.items() if name not in self._parts})
        for name in self._parts:
            super().__setattr__(name, given[name])

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name in self.__dict__.get("_parts", {}):  # another model, optimizer or sampler in its place
            part = _part_of(value)
            assert part is not None
            self._parts[name] = part

    def save(self) -> None:
        for part in self._parts.values():
            part.save()
        super().save()

    def restore(self) -> None:
        for part in self._parts.values():
            part.restore()
        super().restore()

    def sync(self) -> None:
        for part in self._parts.values():
            part.sync()
        super().sync()

    def reset(self) -> None:
        for part in self._parts.values():
            part.reset()


class _Part:
    """Something with state_dict() and load_state_dict()."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.save()

    def save(self) -> None:
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        raise NotImplementedError

    def reset(self) -> None:
        """Called when another team has formed."""


class _Model(_Part):
    def sync(self) -> None:
        broadcast_parameters(self.value.state_dict(), root_rank=0)
        self.save()


class _Optimizer(_Part):
    def sync(self) -> None:
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class _Sampler(_Part):
    def sync(self) -> None:
        """Counts the samples that any process has recorded as processed for all."""
        state = self.value.state_dict()
        state["processed_indices"] = sorted(set().union(*allgather_object(state["processed_indices"])))
        self.value.load_state_dict(broadcast_object(state, 0))
        self.save()

    def reset(self) -> None:
        self.value.reset()


def _part_of(value: Any) -> _Part | None:
    if isinstance(value, torch.nn.Module):
        return _Model(value)
    if isinstance(value, torch.optim.Optimizer):
        return _Optimizer(value)
    return _Sampler(value) if isinstance(value, ElasticSampler) else None


class ElasticSampler(torch.utils.data.Sampler[int]):
    """Samples of a dataset, shared out among the present processes. What was recorded as processed is not drawn again in
    the epoch, also with another number of processes. Part of a TorchState; call record_batch() after each batch and
    set_epoch() at the end of each epoch."""

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = 0
        self.processed_indices: set[int] = set()
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch, of which nothing is processed. Call it when an epoch has ended, not when one begins."""
        self.epoch = epoch
        self.processed_indices = set()
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        self.record_indices(self.get_indices(batch_idx, batch_size))

    def record_indices(self, indices: Iterable[int]) -> None:
        self.processed_indices.update(indices)

    def get_indices(self, batch_idx: int, batch_size: int) -> list[int]:
        """The samples of this process's batch."""
        return self._own()[batch_idx * batch_size:(batch_idx + 1) * batch_size]

    def reset(self) -> None:
        """Shares out what is left of the epoch."""
        self.num_replicas, self.rank = (size(), rank()) if process.place is not None else (1, 0)
        self.remaining_indices = [i for i in range(len(self.dataset)) if i not in self.processed_indices]
        self.num_samples = math.ceil(len(self.remaining_indices) / self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas
        self._order: list[int] | None = None

    def _own(self) -> list[int]:
        """This process's samples, in order. The last ones are repeated, so that all processes have equally many."""
        if self._order is None:
            order = list(self.remaining_indices)
            if self.shuffle:
                random.Random(self.seed + self.epoch).shuffle(order)
            while order and len(order) < self.total_size:
                order += order[:self.total_size - len(order)]
            self._order = order[self.rank:self.total_size:self.num_replicas]
        return self._order

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "processed_indices": sorted(self.processed_indices)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch = state["epoch"]
        self.processed_indices = set(state["processed_indices"])
        self.reset()

    def __iter__(self) -> Iterator[int]:
        return iter(list(self._own()))

    def __len__(self) -> int:
        return self.num_samples


def run(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates func(state, ...), which trains. When a process is lost, the others restore the last commit, form another
    team, and call it again. When one joins, they go on from their present state, which it takes from rank 0."""

    @functools.wraps(func)
    def wrapped(state: State, *given: Any, **named: Any) -> Any:
        skip_sync = False
        while True:
            try:
                if not skip_sync:
                    state.sync()
                return func(state, *given, **named)
            except HorovodInternalError:
                state.restore()
                skip_sync = False
            except HostsUpdatedInterrupt as interrupt:
                skip_sync = interrupt.skip_sync
            _form_again()
            state.on_reset()

    return wrapped


def _form_again() -> None:
    """Forms a team, and another one if a process is lost meanwhile."""
    while True:
        try:
            return process.form_team()
        except HorovodInternalError:
            continue
