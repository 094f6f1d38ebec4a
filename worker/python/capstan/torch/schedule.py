"""A learning rate scheduler that follows the job. The job stores its state with each committed step, so every process
has the right state for a step, also after the job went back or the process was restarted."""
from __future__ import annotations

import gc
import inspect
import json
from array import array
from collections.abc import Callable
from typing import Any

import torch

from capstan.errors import Invalid, Unsupported
from capstan.hyper_parameters import HyperParameters
from capstan.torch.interval import Interval
from capstan.torch.kept_state import from_json, is_code, to_json

_MEASURES = ("ReduceLROnPlateau depends on what one process measures, and the job's learning rate would differ from "
             "process to process: use a scheduler that steps by itself, like StepLR, or LambdaLR with a function of the step")
_REPLACED = ("step", "state_dict", "load_state_dict")


def _check(scheduler: Any) -> None:
    """Refuses schedulers that the job cannot step or store, as far as that can be seen."""
    name = type(scheduler).__name__
    for part in (scheduler, *getattr(scheduler, "_schedulers", ())):
        if isinstance(part, torch.optim.lr_scheduler.ReduceLROnPlateau):
            raise Unsupported(_MEASURES)
    missing = [method for method in _REPLACED if not hasattr(scheduler, method)]
    if missing:
        raise Unsupported(f"{name} has no {missing[0]}(), by which the job keeps it with each step; use one of "
                          "torch.optim.lr_scheduler, like LambdaLR")
    for argument in inspect.signature(scheduler.step).parameters.values():
        if argument.default is argument.empty and argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            raise Unsupported(f"{name}.step() wants {argument.name}, and the job steps it by itself, with nothing; use "
                              "a scheduler that steps by itself")


def refuse_unknown(optimizer: torch.optim.Optimizer) -> None:
    """Refuses a ReduceLROnPlateau. Before torch 2.2 it leaves no mark on its optimizer, so this searches for it."""
    for holder in gc.get_referrers(optimizer):
        owners = gc.get_referrers(holder) if isinstance(holder, dict) else [holder]
        for owner in owners:
            if isinstance(owner, torch.optim.lr_scheduler.ReduceLROnPlateau) and owner.optimizer is optimizer:
                raise Unsupported(_MEASURES)


class Schedule:
    """Owns the script's scheduler. Calls of its step() only determine the interval; the scheduler acts after committed
    steps."""

    def __init__(self, scheduler: Any, optimizer: torch.optim.Optimizer, interval: Interval) -> None:
        _check(scheduler)
        if getattr(scheduler, "optimizer", optimizer) is not optimizer:
            raise Invalid("the scheduler is another optimizer's than the one that is given to prepare()")
        self._optimizer = optimizer
        self._act, self._state, self._load = scheduler.step, scheduler.state_dict, scheduler.load_state_dict
        self._name = type(scheduler).__name__
        self.interval = interval
        self.acts = False  # the scheduler acts right now; only then may torch's code read the optimizer's step()
        self._begin = self._now()
        self._step = 0
        self._told = array("q")  # by step: a hash of the numbers that this process sent
        self._is_told = bytearray()  # by step: whether this process sent numbers
        scheduler.state_dict = self._state_to_save
        scheduler.load_state_dict = self._refuse_state
        self.call_at_step(scheduler, lambda: None)

    @staticmethod
    def call_at_step(scheduler: Any, call: Callable[[], object]) -> None:
        """Makes the script's scheduler.step() call `call`."""
        scheduler.step = lambda *_, **__: call()

    def go_to(self, step: int, kept: bytes) -> None:
        """Puts the scheduler into its state at the beginning of step `step`: the stored state, or if there is none, the
        state after that many steps."""
        if kept:
            if kept != self._now():
                self._restore(kept)
                self._adopt(kept)
            self._step = step
            return
        if step > 0 and self.interval.word is None:
            raise Invalid(f"the job is at step {step}, and nothing says how often {self._name} acts: write "
                          'prepare(..., scheduler_interval="step") or "epoch"')
        if step < self._step:
            self._restore(self._begin)
            self._step = 0
        while self._step < step:
            self._go_on()

    def after(self) -> bytes:
        """Advances past the current step; returns the state for the job to store with it."""
        self._go_on()
        return self._now()

    def check_told(self, step: int, groups: list[HyperParameters]) -> None:
        """Checks that this process sends the same numbers for `step` as it sent before the job went back. Numbers that
        another process sent, or this one before a restart, cannot be compared."""
        missing = step + 1 - len(self._told)
        self._told.extend([0] * missing)
        self._is_told.extend([False] * missing)
        told = hash(tuple(groups))
        if self._is_told[step] and self._told[step] != told:
            raise Unsupported(f"{self._name}, stepped {step} times, gives other numbers than before the job went back: "
                              "they depend on more than its state_dict(). Start the process again, and give the next "
                              "job a scheduler that keeps there all that its numbers depend on")
        self._told[step], self._is_told[step] = told, True

    def _go_on(self) -> None:
        if self.interval.acts_after(self._step):
            self.acts = True
            try:
                self._act()
            finally:
                self.acts = False
        self._step += 1

    def _adopt(self, kept: bytes) -> None:
        word = json.loads(kept).get("interval")
        if word is not None:
            self.interval.adopt(word)

    def _now(self) -> bytes:
        """The state as JSON, with the groups' numbers, from which schedulers compute new ones. Sorted, so that all
        processes get the same bytes."""
        name, groups = self._name, self._optimizer.param_groups
        return json.dumps({
            "scheduler": name,
            "interval": self.interval.word,
            "state": self._kept(self._state_to_save(), f"{name}.state_dict()"),
            "groups": [self._kept({option: value for option, value in group.items() if option != "params"},
                                  f"group {index} of the optimizer") for index, group in enumerate(groups)],
        }, separators=(",", ":")).encode()

    @staticmethod
    def _kept(values: dict[str, Any], name: str) -> dict[str, Any]:
        return {key: to_json(values[key], f"{name}[{key!r}]") for key in sorted(values)}

    def _restore(self, kept: bytes) -> None:
        try:
            wanted = json.loads(kept)
            named = wanted["scheduler"]
            state = {key: from_json(value) for key, value in wanted["state"].items()}
            groups = [{key: from_json(value) for key, value in group.items()} for group in wanted["groups"]]
        except (ValueError, TypeError, KeyError) as error:
            raise Invalid(f"what the job keeps with its steps ({len(kept)} bytes) is no scheduler's state ({error!r}): "
                          "its workers are to run one script") from error
        if named != self._name or len(groups) != len(self._optimizer.param_groups):
            raise Invalid(f"the job keeps the state of {named} over {len(groups)} groups, and this script has "
                          f"{self._name} over {len(self._optimizer.param_groups)}: go on with the job's own, or begin "
                          "another job")
        self._load(state)
        for group, options in zip(self._optimizer.param_groups, groups):
            group.update(options)
        found = json.loads(self._now())["state"]
        lost = [key for key, value in wanted["state"].items() if json.dumps(found.get(key)) != json.dumps(value)]
        if lost:
            raise Unsupported(f'{self._name}.load_state_dict() does not bring back "{lost[0]}" of its state_dict(), by '
                              "which the job keeps it; give the job a scheduler that does")

    def _state_to_save(self) -> dict[str, Any]:
        return {name: value for name, value in self._state().items() if name not in _REPLACED and not is_code(value)}

    @staticmethod
    def _refuse_state(_: object) -> None:
        raise Unsupported("the scheduler's state is the job's: a job goes on from its own snapshots, with capstan "
                          "launch --resume")
