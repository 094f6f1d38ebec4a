"""Buffers of a script's model that training changes, such as batch-norm's running mean. The job stores them with the
weights.

Each slot begins with the job's values. When it ends, the values after its forward passes are observed. The next step's
values are the mean over the slots, weighted by their samples: the same bits for any number of processes.
"""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch.nn.utils.spectral_norm import SpectralNorm

from capstan.errors import Invalid, Unsupported
from capstan.tensors import Tensor, Tensors
from capstan.torch.parameters import buffer_of, copied

_TENTH = 10.0  # servers move the stored value a tenth of the way to the observed one
_COUNTER = "num_batches_tracked"
WORDS = ("mean", "local")


@dataclass(frozen=True)
class Place:
    """A module's attribute that is a buffer or a parameter. A script may replace the tensor in it."""

    name: str
    owner: torch.nn.Module
    key: str

    @property
    def value(self) -> torch.Tensor:
        return getattr(self.owner, self.key)  # type: ignore[no-any-return]

    @property
    def is_counter(self) -> bool:
        """Whether it counts the batches that a norm has seen."""
        return self.key == _COUNTER

    @property
    def is_observed(self) -> bool:
        """Whether training is known to change it."""
        if self.key in ("running_mean", "running_var"):
            return bool(getattr(self.owner, "track_running_stats", True))
        if type(self.owner).__name__ == "_SpectralNorm":  # from torch.nn.utils.parametrizations
            return self.key in ("_u", "_v")
        hooks = (hook for hook in self.owner._forward_pre_hooks.values() if isinstance(hook, SpectralNorm))
        return any(self.key in (f"{hook.name}_u", f"{hook.name}_v") for hook in hooks)


def places_of(model: torch.nn.Module) -> Iterator[Place]:
    """Yields each buffer and parameter once, under its first name."""
    seen = set()
    for prefix, module in model.named_modules():
        for key, tensor in (*module._parameters.items(), *module._buffers.items()):
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                yield Place(f"{prefix}.{key}" if prefix else key, module, key)


class Wishes:
    """The script's choices for buffers: "mean", the job stores the mean; "local", every process has its own value."""

    def __init__(self, wishes: Mapping[str, str] | None) -> None:
        self._wishes = dict(wishes or {})
        self._used: set[str] = set()
        for pattern, word in self._wishes.items():
            if word not in WORDS:
                raise Invalid(f'prepare(..., buffers={{"{pattern}": {word!r}}}): wanted "mean" or "local"')

    def of(self, place: Place) -> str | None:
        for pattern, word in self._wishes.items():
            if fnmatchcase(place.name, pattern):
                self._used.add(pattern)
                return word
        return "mean" if place.is_observed else None

    def must_be_used(self) -> None:
        for pattern in self._wishes.keys() - self._used:
            raise Invalid(f'prepare(..., buffers={{"{pattern}": ...}}): the model has no such buffer; names are those '
                          "of model.named_buffers(), and * stands for any part of one")


class _Counter:
    """A norm's counter of batches. It follows the job's step; in a norm that is not in training mode it stays
    unchanged."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self.owner = place.owner
        self.counts = self.owner.training
        self._begin = int(place.value)
        if self.averages and self._begin != 0:
            raise Unsupported(f'"{place.name}" is {self._begin}, and its norm averages over all batches '
                              "(momentum=None), of which the job counts its own: call reset_running_stats() before "
                              "prepare(), or give it a momentum")

    @property
    def averages(self) -> bool:
        return getattr(self.owner, "momentum", 0.1) is None

    @property
    def value(self) -> int:
        return int(self._place.value)

    def go_to(self, step: int) -> None:
        self._place.value.fill_(step if self.counts else self._begin)


class Statistics:
    """The job's observed tensors. They come first in its catalog, because they are observed when a slot ends and so are
    sent last."""

    def __init__(self, places: list[Place], counters: list[Place]) -> None:
        self._places = places
        self._homes = [_checked(place) for place in places]
        self._counters = [_Counter(place) for place in counters]
        self._sizes = [home.numel() for home in self._homes]
        self._kept = torch.empty(0)  # the job's values in the current round
        self._step = 0
        self._observes = False  # the first slot has been observed

    def __len__(self) -> int:
        return len(self._places)

    def tensors(self) -> list[Tensor]:
        """The tensors to declare. They need a group, whose numbers do not affect them."""
        return [Tensor(place.name, tuple(place.value.shape), initial="given", group=1, statistic=True)
                for place in self._places]

    def first_values(self) -> dict[str, tuple[torch.Tensor, memoryview[float]]]:
        return {place.name: buffer_of(place.value) for place in self._places}

    def lay_over(self, weights: Tensors, step: int) -> None:
        """Called when a round begins and its values are in the client's memory."""
        self._step = step
        if self._places and self._kept.data_ptr() != weights.address:
            self._kept = self._flat(weights)
        self.restore()

    @torch.no_grad()
    def restore(self) -> None:
        """Puts the job's values into the model."""
        if self._places:
            # If the model is on a GPU, all values go there in one copy, because many small copies are slow.
            parts = self._kept.to(self._homes[0].device).split(self._sizes)
            for index, (place, part) in enumerate(zip(self._places, parts)):
                self._go_home(index, place).copy_(part.view(place.value.shape))
        for counter in self._counters:
            counter.go_to(self._step)

    @torch.no_grad()
    def observe(self, memory: Tensors) -> None:
        """Called when a slot ends: writes the observed values next to its gradients, and restores the job's values in
        the model."""
        if not self._observes:
            self._observes = True
            for counter in self._counters:
                counter.counts = counter.owner.training
        if self._places:
            device = self._homes[0].device
            now = torch.cat([self._value(index).to(device) for index in range(len(self._places))]).cpu()
            observed = self._flat(memory)
            torch.sub(now, self._kept, out=observed)
            observed.mul_(_TENTH)
            self._average(observed)
            observed.add_(self._kept)
        self.restore()

    @torch.no_grad()
    def take(self, weights: Tensors, step: int) -> None:
        """Called when the job is done, with its last values."""
        for index, place in enumerate(self._places):
            home = self._go_home(index, place)
            home.copy_(copied(weights[place.name], home))
        for counter in self._counters:
            counter.go_to(step)

    # ---- where the script makes the versions: the job publishes the mean, and each process moves its own values

    def own(self, weights: Tensors, step: int) -> None:
        """Takes a copy of the version's values; they are in the model already."""
        self._step = step
        if self._places:
            self._kept = self._flat(weights).clone()

    @torch.no_grad()
    def move(self, mean: Tensors, step: int) -> None:
        """Moves the values as the servers of other jobs do, a tenth of the way to the mean, and puts them into the
        model."""
        self._step = step
        if self._places:
            self._kept.add_(self._flat(mean).sub(self._kept).div_(_TENTH))
        self.restore()

    def kept(self) -> dict[str, torch.Tensor]:
        parts = torch.split(self._kept, self._sizes) if self._places else ()
        return {place.name: part.view(place.value.shape) for place, part in zip(self._places, parts)}

    def _flat(self, memory: Tensors) -> torch.Tensor:
        return torch.frombuffer(memory.flat, dtype=torch.float32, count=sum(self._sizes))

    def _value(self, index: int) -> torch.Tensor:
        place, home = self._places[index], self._homes[index]
        value = place.value.detach()
        if value.shape != home.shape or value.dtype != home.dtype:
            raise Invalid(f'buffer "{place.name}" became {value.dtype} of shape {tuple(value.shape)} in step '
                          f"{self._step}, and the job keeps {home.dtype} of shape {tuple(home.shape)}")
        flat: torch.Tensor = value.reshape(-1)
        return flat

    def _go_home(self, index: int, place: Place) -> torch.Tensor:
        """The tensor that the model had in prepare(), or a new one if the value moved to another device."""
        value, home = place.value, self._homes[index]
        if value is not home:
            if value.device != home.device:
                home = self._homes[index] = torch.empty_like(home, device=value.device)
            setattr(place.owner, place.key, home)
        return home

    def _average(self, observed: torch.Tensor) -> None:
        """For a norm that averages over all batches, a step counts as one batch, whatever its number of pieces."""
        begin = self._step
        for counter in self._counters:
            pieces = counter.value - begin if counter.averages else 0
            if pieces > 1:
                for place, part in zip(self._places, torch.split(observed, self._sizes)):
                    if place.owner is counter.owner:
                        part.mul_((begin + pieces) / (pieces * (begin + 1)))


def _checked(place: Place) -> torch.Tensor:
    value = place.value
    if value.dtype != torch.float32:
        raise Unsupported(f'buffer "{place.name}" is of {value.dtype}; the job keeps float32: make it so before prepare(), '
                          f'or write prepare(..., buffers={{"{place.name}": "local"}}) where processes may differ in it')
    return value
