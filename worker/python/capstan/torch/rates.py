"""Sends the hyper-parameters of the optimizer's groups to the servers, once per round."""
from __future__ import annotations

from typing import Any

import torch

from capstan.client import Client, Slot, Work
from capstan.errors import Invalid, Unsupported
from capstan.hyper_parameters import HyperParameters
from capstan.torch import messages
from capstan.torch.rules import Rule
from capstan.torch.schedule import Schedule, refuse_unknown

_LOOKS_MAX = 8  # searches for a scheduler that prepare() was not given


class Rates:
    """All slots of a step must have the same numbers, in this process and in the others."""

    def __init__(self, client: Client, optimizer: torch.optim.Optimizer, rule: Rule, schedule: Schedule | None) -> None:
        self._client, self._optimizer, self._rule, self._schedule = client, optimizer, rule, schedule
        self._told: list[HyperParameters] | None = None  # sent in this round
        self._before: list[HyperParameters] | None = None  # sent in the last round that sent any
        self._looks = 0
        self._fixed = self._of_groups(rule.fixed)  # values that must not change while the job runs

    def round_begins(self) -> None:
        self._told = None

    def tell(self, work: Work, slot: Slot) -> None:
        """Called before anything of the slot is sent."""
        groups = [self._rule.hyper_parameters(group) for group in self._optimizer.param_groups]
        if self._fixed != self._of_groups(self._rule.fixed):
            raise Unsupported(f"{', '.join(self._rule.fixed)} of {type(self._optimizer).__name__} changed from "
                              f"{self._fixed} to {self._of_groups(self._rule.fixed)}, and the servers compute each "
                              "update as if they had always been the same: leave them as prepare() found them")
        if self._told is None:
            self._look_for_schedulers(groups)
            if self._schedule is not None:
                self._schedule.check_told(work.step, groups)
            self._client.set_hyper_parameters(groups)
            self._told = self._before = groups
        elif groups != self._told:
            raise Invalid(f"the optimizer's numbers changed within step {work.step}: {groups[0]} for slot "
                          f"{slot.index}, and {self._told[0]} for the slots before it. A process may compute several "
                          "slots of one step: set the learning rate, and whatever follows the loop's counter, from "
                          "trainer.global_step")

    def must_stay(self, step: int) -> None:
        """Called when a slot ends: its gradients have left with the numbers that its first backward() found."""
        groups = [self._rule.hyper_parameters(group) for group in self._optimizer.param_groups]
        if self._told is not None and groups != self._told:
            raise Invalid(messages.LATE_RATE.format(step=step, now=groups[0], told=self._told[0]))

    def _of_groups(self, options: tuple[str, ...]) -> list[list[Any]]:
        return [[group[option] for option in options] for group in self._optimizer.param_groups]

    def _look_for_schedulers(self, groups: list[HyperParameters]) -> None:
        """Searches before the first step and when a number has changed, at most _LOOKS_MAX times."""
        if groups != self._before and self._looks < _LOOKS_MAX:
            self._looks += 1
            refuse_unknown(self._optimizer)
