"""The numbers of the optimizer's groups, which the servers are told once in a round."""
from __future__ import annotations

import torch

from capstan.client import Client, Slot, Work
from capstan.errors import Invalid
from capstan.hyper_parameters import HyperParameters
from capstan.torch.rules import Rule
from capstan.torch.schedule import Schedule, refuse_unknown

_LOOKS_MAX = 8  # for a scheduler that nobody gave to prepare()


class Rates:
    """All slots of a step have the same ones, in this process as in the others."""

    def __init__(self, client: Client, optimizer: torch.optim.Optimizer, rule: Rule, schedule: Schedule | None) -> None:
        self._client, self._optimizer, self._rule, self._schedule = client, optimizer, rule, schedule
        self._told: list[HyperParameters] | None = None  # in this round
        self._before: list[HyperParameters] | None = None  # in the round before
        self._looks = 0

    def round_begins(self) -> None:
        self._told = None

    def tell(self, work: Work, slot: Slot) -> None:
        """Before anything of the slot leaves."""
        groups = [self._rule.hyper_parameters(group) for group in self._optimizer.param_groups]
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

    def _look_for_schedulers(self, groups: list[HyperParameters]) -> None:
        """Before the first step, and where the script has changed a number by hand."""
        if groups != self._before and self._looks < _LOOKS_MAX:
            self._looks += 1
            refuse_unknown(self._optimizer)
