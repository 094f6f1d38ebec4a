"""Copies data from the servers into the script's model and optimizer: the optimizer's state when the script saves it,
and the last weights when the job is done."""
from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

import torch

from capstan.errors import Error, Unreachable
from capstan.reader import Reader, Version
from capstan.torch.parameters import copied
from capstan.torch.rules import Rule
from capstan.torch.values import Values

_ASKS_PER_LEASE = 4
TOO_LATE = ("the job is done, and its last weights could not be read before its servers ended: the model has older "
             "ones. final.safetensors in the run directory has the last")


class LastVersion:
    """The job's end waits for readers that have asked within the job's lease. So every process asks regularly from
    prepare() on, whether it has slots or waits for some."""

    def __init__(self, connect: Callable[[], Reader], job: dict[str, Any], values: Values,
                 optimizer: torch.optim.Optimizer, rule: Rule) -> None:
        self._connect, self._steps = connect, int(job["job"]["steps"])
        self._values, self._optimizer, self._rule = values, optimizer, rule
        self._every = float(job["limits"]["lease"]) / _ASKS_PER_LEASE
        self._asked = time.monotonic()
        self._reader = connect()
        self._reader.progress()

    def ask_for(self, step: int) -> None:
        """Called before this step's slots end. In the job's last step it asks at once, so that the servers wait for
        this process."""
        if step + 1 < self._steps:
            return self.go_on_asking()
        self._asked = time.monotonic()
        self._reader.progress()

    def go_on_asking(self) -> None:
        """Asks again if a part of the lease has passed since the last time."""
        if time.monotonic() < self._asked + self._every:
            return
        self._asked = time.monotonic()
        with contextlib.suppress(Error):  # if the coordinator is unreachable, the client reports it
            self._reader.progress(self._every)

    def close(self) -> None:
        """From now on the job's end does not wait for this process."""
        self._reader.close()

    def take(self) -> float:
        """Copies the weights after the last step into the model, and the state into the optimizer. Returns the norm of the
        last step's gradient."""
        try:
            version = self._reader.pull(newer_than=self._steps - 1, optimizer_state=True)
        except Error as error:
            raise Unreachable(f"{TOO_LATE}: {error}") from error
        if version is None:
            raise Unreachable(TOO_LATE)
        self._values.take(version.weights, self._steps)
        self._take_state(version)
        self.close()
        return version.grad_norm

    def take_optimizer_state(self) -> None:
        """Copies the newest state into the optimizer while the job runs."""
        with self._connect() as reader:
            version = reader.pull(optimizer_state=True)
            if version is not None:
                self._take_state(version)

    def _take_state(self, version: Version) -> None:
        """Copies a version's state into the optimizer in torch's form. "step" counts updates; in async and bounded,
        those of the block with the fewest."""
        for entry in self._values.parameters:
            state: dict[str, Any] = {name: copied(tensors[entry.name], entry.parameter)
                                     for name, tensors in version.state.items()}
            state.update(self._rule.scalars(self._optimizer.param_groups[entry.group], version.updates))
            self._optimizer.state[entry.parameter] = state
