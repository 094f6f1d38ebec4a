"""What the servers have, copied into the script's model and optimizer: the optimizer's state when the script saves it,
and the last weights when the job is done."""
from __future__ import annotations

import logging
from typing import Any

import torch

from capstan.errors import Error
from capstan.reader import Reader, Version
from capstan.torch.parameters import Parameter, copied
from capstan.torch.rules import Rule

_log = logging.getLogger("capstan")


class LastVersion:
    """Servers end with the job, and wait for those who follow it from before its last step on."""

    def __init__(self, address: str, steps: int, parameters: list[Parameter], optimizer: torch.optim.Optimizer,
                 rule: Rule) -> None:
        self._address, self._steps = address, steps
        self._parameters, self._optimizer, self._rule = parameters, optimizer, rule
        self._reader: Reader | None = None

    def ask_for(self, step: int) -> None:
        """Before this step's slots end: where it is the last one, the servers are told to wait."""
        if step + 1 < self._steps:
            return
        if self._reader is None:
            self._reader = Reader(self._address)
        self._reader.progress()

    def take(self) -> None:
        """The model has the weights after the last step, and the optimizer its state."""
        reader, self._reader = self._reader, None
        try:
            version = reader.pull(newer_than=self._steps - 1, optimizer_state=True) if reader else None
        except Error as error:
            version = None
            _log.warning("%s", error)
        if version is None:
            _log.warning("the job ended before its last weights could be read; the model has those of the last step "
                         "that this process computed in (none: its own first ones), final.safetensors in the run "
                         "directory has the last")
            return
        with torch.no_grad():
            for entry in self._parameters:
                entry.parameter.copy_(copied(version.weights[entry.name], entry.parameter))
        self._take_state(version)
        if reader is not None:
            reader.close()

    def take_optimizer_state(self) -> None:
        """The newest there is, while the job runs."""
        with Reader(self._address) as reader:
            version = reader.pull(optimizer_state=True)
            if version is not None:
                self._take_state(version)

    def _take_state(self, version: Version) -> None:
        """Into the optimizer, as torch keeps it: "step" counts updates, in async and bounded those of the block that has
        the fewest."""
        for entry in self._parameters:
            state: dict[str, Any] = {name: copied(tensors[entry.name], entry.parameter)
                                     for name, tensors in version.state.items()}
            if self._rule.counts_steps:
                state["step"] = torch.tensor(float(version.updates))
            self._optimizer.state[entry.parameter] = state
