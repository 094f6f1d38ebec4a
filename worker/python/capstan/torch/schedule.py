"""A learning rate scheduler that follows the job: after step k is committed it has been stepped k times, whichever
process asks, and after a step back too."""
from __future__ import annotations

import copy
import weakref
from typing import Any

import torch

from capstan.errors import Invalid, Unsupported

_REPLACED = ("step", "state_dict", "load_state_dict")


def _copied(state: dict[str, Any]) -> dict[str, Any]:
    """Without what refers to the scheduler itself: CyclicLR has such a state before torch 2.0."""
    return {name: copy.deepcopy(value) for name, value in state.items() if not isinstance(value, weakref.ref)}


class Schedule:
    """Owns the script's scheduler. Its step() does nothing from now on: only committed steps count."""

    def __init__(self, scheduler: Any, optimizer: torch.optim.Optimizer) -> None:
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise Unsupported("ReduceLROnPlateau depends on what one process measures; use a scheduler that is a "
                              "function of the step")
        if getattr(scheduler, "optimizer", optimizer) is not optimizer:
            raise Invalid("the scheduler is another optimizer's than the one that is given to prepare()")
        self._optimizer = optimizer
        self._advance, self._state, self._load = scheduler.step, scheduler.state_dict, scheduler.load_state_dict
        self._begin = _copied(self._state())
        self._groups = [self._options(group) for group in optimizer.param_groups]
        self._step = 0
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

    def _state_to_save(self) -> dict[str, Any]:
        return {name: value for name, value in self._state().items() if name not in _REPLACED}

    @staticmethod
    def _refuse_state(_: object) -> None:
        raise Unsupported("the scheduler follows the job's steps: a job goes on from its own snapshots, with capstan "
                          "launch --resume")

    @staticmethod
    def _options(group: dict[str, Any]) -> dict[str, Any]:
        return {name: copy.deepcopy(value) for name, value in group.items() if name != "params"}
