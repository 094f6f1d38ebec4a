"""Detects changes that a script makes to its model besides training, which the servers would undo or not know of."""
from __future__ import annotations

from dataclasses import dataclass

import torch

from capstan.errors import Invalid, Unsupported
from capstan.tensors import Tensors
from capstan.torch import messages
from capstan.torch.orders import key_of
from capstan.torch.parameters import Parameter, digest_of
from capstan.torch.statistics import Place

_WHOLE = 4096  # tensors up to this size are compared in full
_EACH = 509  # stride in larger ones; not a power of two, so that samples spread over rows and columns

_CHANGED = ('parameter "{name}" was changed by the script in step {step}, and the servers keep their own: the '
            "change would last for this step alone. Load other weights before prepare(); where you evaluate with "
            "other weights, put the job's back before optimizer.step(); and write a constraint (clamp_, a norm) "
            "into the forward pass, as torch.nn.utils.parametrize does, or into the loss")
_REPLACED = ('parameter "{name}" was replaced or added after prepare(), by step {step}, and the job does not know '
             "the new one: make the model whole before prepare()")
_FROZEN_CHANGED = ('parameter "{name}", which is frozen, changed in step {step}, and the job does not keep it: '
                   'every process would have its own. Write prepare(..., buffers={{"{name}": "mean"}}) for the job '
                   'to keep it, as the mean over a step\'s slots, or "local" in place of "mean" where processes may '
                   "differ in it")
_BUFFER_CHANGED = ('buffer "{name}" changed in step {step}, and the job does not keep it: every process would have '
                   'its own. Write prepare(..., buffers={{"{name}": "mean"}}) for the job to keep it, as the mean '
                   'over a step\'s slots, or "local" in place of "mean" where processes may differ in it')
_OTHER_CHANGED = ('buffer "{name}" of {dtype} changed in step {step}, and the job keeps float32 alone: every '
                  "process would have its own. Compute it from trainer.global_step, or write prepare(..., "
                  'buffers={{"{name}": "local"}}) where processes may differ in it')


class Weights:
    """Checks that the parameters have the round's values when a slot ends. Meanwhile a script may put in others, for
    example for an evaluation. A tensor of up to 4096 elements is compared in full, a larger one at every 509th
    element."""

    def __init__(self, parameters: list[Parameter]) -> None:
        self._parameters = parameters
        self._places: list[int] = []  # addresses
        self._looks: list[torch.Tensor] = []  # views of the compared elements
        self._seen = torch.empty(0)

    def round_begins(self) -> None:
        """Called when the round's weights are in place."""
        places = [entry.parameter.data_ptr() for entry in self._parameters]
        if places != self._places:
            self._places = places
            self._looks = [_look(entry.parameter.detach()) for entry in self._parameters]
        self._seen = self._look_at_all()

    def check(self, step: int, memory: Tensors) -> None:
        """Called when a slot ends. `memory`: the round's weights; parameters on the CPU are views of it."""
        for entry, place in zip(self._parameters, self._places):
            parameter = entry.parameter
            if not parameter.requires_grad:
                raise Invalid(messages.FROZEN.format(name=entry.name, step=step))
            if parameter.data_ptr() != place and not _same_bits(parameter.detach().cpu(), entry.view(memory)):
                raise Unsupported(_CHANGED.format(name=entry.name, step=step))
        now = self._look_at_all()
        if not _same_bits(now, self._seen):
            sizes = [look.numel() for look in self._looks]
            pairs = zip(self._parameters, torch.split(now, sizes), torch.split(self._seen, sizes))
            changed = next(entry for entry, new, old in pairs if not _same_bits(new, old))
            raise Unsupported(_CHANGED.format(name=changed.name, step=step))

    def _look_at_all(self) -> torch.Tensor:
        devices = {look.device for look in self._looks}
        looks = self._looks if len(devices) == 1 else [look.cpu() for look in self._looks]
        return torch.cat(looks)


def _look(values: torch.Tensor) -> torch.Tensor:
    """A view of the compared elements, in memory order."""
    flat: torch.Tensor = values.as_strided((values.numel(),), (1,))
    return flat if values.numel() <= _WHOLE else flat[::_EACH]


def _same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.dtype != right.dtype or left.shape != right.shape:
        return False
    return torch.equal(left.contiguous().view(torch.int32), right.contiguous().view(torch.int32))


@dataclass
class _State:
    mark: tuple[int, int, int]
    digest: int


class Constants:
    """Checks buffers and frozen parameters, which must be the same in every process from the first step to the last."""

    def __init__(self, places: list[Place]) -> None:
        self._places = places
        self._states = {place.name: _State(_mark(place.value), _digest(place)) for place in places}
        self._looked = False

    @property
    def digest(self) -> int:
        return key_of(*(state.digest for state in self._states.values()))

    def check(self, step: int) -> None:
        """Called when a slot ends. After the first slot all bytes are compared, later only those of tensors that were
        written to."""
        for place in self._places:
            value, state = place.value, self._states[place.name]
            if isinstance(value, torch.nn.Parameter) and (value.requires_grad or value.grad is not None):
                raise Invalid(messages.UNFROZEN.format(name=place.name, step=step))
            mark = _mark(value)
            if self._looked and mark == state.mark:
                continue
            if _digest(place) != state.digest:
                raise Unsupported(_changed(value).format(name=place.name, step=step, dtype=value.dtype))
            state.mark = mark
        self._looked = True


def _mark(value: torch.Tensor) -> tuple[int, int, int]:
    """Changes when the tensor is replaced or written to, except through .data."""
    return id(value), value.data_ptr(), value._version


def _digest(place: Place) -> int:
    return digest_of(iter([(place.name, place.value)]))


def _changed(value: torch.Tensor) -> str:
    if isinstance(value, torch.nn.Parameter):
        return _FROZEN_CHANGED
    return _BUFFER_CHANGED if value.dtype == torch.float32 else _OTHER_CHANGED


def refuse_new(model: torch.nn.Module, known: set[str], parameters: list[Parameter], step: int) -> None:
    """Raises if the model has a parameter that prepare() has not seen."""
    trained = {entry.name: entry.parameter for entry in parameters}
    for name, parameter in model.named_parameters():
        if name not in known or (name in trained and trained[name] is not parameter):
            raise Invalid(_REPLACED.format(name=name, step=step))
