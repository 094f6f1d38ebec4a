"""A learning rate scheduler that follows the job: after step k is committed it has been stepped k times, whichever
process asks, and after a step back too."""
from __future__ import annotations

import copy
from typing import Any

import torch

from capstan.errors import Unsupported


class Schedule:
    """Owns the script's scheduler. Its step() does nothing from now on: only committed steps count."""

    def __init__(self, scheduler: Any, optimizer: torch.optim.Optimizer) -> None:
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise Unsupported("ReduceLROnPlateau depends on what one process measures; use a scheduler that is a "
                              "function of the step")
        self._scheduler = scheduler
        self._optimizer = optimizer
        self._advance = scheduler.step
        self._begin = copy.deepcopy(scheduler.state_dict())
        self._groups = [self._options(group) for group in optimizer.param_groups]
        self._step = 0
        scheduler.step = lambda *_, **__: None

    def go_to(self, step: int) -> None:
        """As it is when step `step` begins."""
        if step < self._step:
            self._scheduler.load_state_dict(copy.deepcopy(self._begin))
            for group, options in zip(self._optimizer.param_groups, self._groups):
                group.update(copy.deepcopy(options))
            self._step = 0
        while self._step < step:
            self._advance()
            self._step += 1

    @staticmethod
    def _options(group: dict[str, Any]) -> dict[str, Any]:
        return {name: copy.deepcopy(value) for name, value in group.items() if name != "params"}
