"""A learning rate scheduler that follows the job: after step k is committed it has been stepped k times, whichever
process asks, and after a step back too. One that is no function of the step is refused."""
from __future__ import annotations

import copy
import inspect
import weakref
from array import array
from typing import Any

import torch

from capstan.errors import Invalid, Unsupported
from capstan.hyper_parameters import HyperParameters

_REPLACED = ("step", "state_dict", "load_state_dict")


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    """Without what refers to the scheduler itself: CyclicLR has such a state before torch 2.0."""
    return {name: copy.deepcopy(value) for name, value in state.items() if not isinstance(value, weakref.ref)}


def _check(scheduler: Any) -> None:
    """What cannot be stepped again from its beginning, as far as one can see."""
    name = type(scheduler).__name__
    for part in (scheduler, *getattr(scheduler, "_schedulers", ())):
        if isinstance(part, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise Unsupported("ReduceLROnPlateau depends on what one process measures; use a scheduler that is a "
                              "function of the step")
    missing = [method for method in _REPLACED if not hasattr(scheduler, method)]
    if missing:
        raise Unsupported(f"{name} has no {missing[0]}(), and where the job goes back it is begun again; use one of "
                          "torch.optim.lr_scheduler, like LambdaLR")
    for argument in inspect.signature(scheduler.step).parameters.values():
        if argument.default is argument.empty and argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            raise Unsupported(f"{name}.step() wants {argument.name}, and the job steps it by itself, with nothing; use "
                              "a scheduler that is a function of the step")


class Schedule:
    """Owns the script's scheduler. Its step() does nothing from now on: only committed steps count."""

    def __init__(self, scheduler: Any, optimizer: torch.optim.Optimizer) -> None:
        _check(scheduler)
        if getattr(scheduler, "optimizer", optimizer) is not optimizer:
            raise Invalid("the scheduler is another optimizer's than the one that is given to prepare()")
        self._optimizer = optimizer
        self._advance, self._state, self._load = scheduler.step, scheduler.state_dict, scheduler.load_state_dict
        self._name = type(scheduler).__name__
        try:
            self._begin = _copied(self._state())
        except TypeError as error:
            raise Unsupported(f"the state of {self._name} cannot be copied ({error}), and where the job goes back it "
                              "is begun again; use a scheduler that is a function of the step") from error
        self._groups = [self._options(group) for group in optimizer.param_groups]
        self._step = 0
        self._told = array("q")  # by step, a hash of what this process told the servers
        self._is_told = bytearray()  # by step: not where it had no slot
        scheduler.step = lambda *_, **__: None
        scheduler.state_dict = self._state_to_save
        scheduler.load_state_dict = self._refuse_state

    def go_to(self, step: int) -> None:
        """As it is when step `step` begins."""
        if step < self._step:
            self._load(copy.deepcopy(self._begin))
            for group, options in zip(self._optimizer.param_groups, self._groups):
                group.update(copy.deepcopy(options))
            self._step = 0
        while self._step < step:
            self._advance()
            self._step += 1

    def check_told(self, step: int, groups: list[HyperParameters]) -> None:
        """That this process tells the servers for `step` what it told them for it before the job went back. What it
        has not told, because another process had the slots, or one before it under its name, it cannot compare."""
        missing = step + 1 - len(self._told)
        self._told.extend([0] * missing)
        self._is_told.extend([False] * missing)
        told = hash(tuple(groups))
        if self._is_told[step] and self._told[step] != told:
            raise Unsupported(f"{self._name}, stepped {step} times, gives other numbers than before the job went back: "
                              "they depend on more than its state_dict(). Start the process again, which begins anew, "
                              "and give the next job a scheduler that is a function of the step")
        self._told[step], self._is_told[step] = told, True

    def _state_to_save(self) -> dict[str, Any]:
        return {name: value for name, value in self._state().items() if name not in _REPLACED}

    @staticmethod
    def _refuse_state(_: object) -> None:
        raise Unsupported("the scheduler follows the job's steps: a job goes on from its own snapshots, with capstan "
                          "launch --resume")

    @staticmethod
    def _options(group: dict[str, Any]) -> dict[str, Any]:
        return {name: copy.deepcopy(value) for name, value in group.items() if name != "params"}
