"""Clipping by a script's own clip_grad_norm_() and clip_grad_value_(). Servers do it, by the gradient of the whole job."""
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import torch

from capstan.client import Client
from capstan.errors import Invalid, Unsupported
from capstan.torch.parameters import Parameter

_NEEDS_SYNC = ("{call}() clips the gradient of a step of all slots, and mode {mode} has no such steps: set "
               "optimizer.clip_norm in the job file, which clips each slot's, and leave this line out")
_SUBSET = ("{call}() was given {count} of the model's {all} gradients, and servers clip all of them together: write "
           "torch.nn.utils.{call}(model.parameters(), {limit})")
_OTHER_NORM = ("clip_grad_norm_() with norm_type={kind}: servers clip by the norm 2 of the whole gradient; leave "
               "norm_type out")
_NOT_A_LIMIT = "{call}(): a limit of {limit} makes no gradient; write a number above 0"
_JOB_S_OWN = ("clip_grad_norm_() is called with max_norm={limit}, and the job file has optimizer.clip_norm = {own}: leave one of "
              "them out")
_DIFFERS = ("slot {slot} of step {step} has {now}, and a slot before it {told}: a process may compute several slots of one step; "
            "let the limit follow from trainer.global_step")


@dataclass(frozen=True)
class Limits:
    """The limits to which a step's gradient is clipped; None: there is no limit."""

    norm: float | None = None
    value: float | None = None

    def __str__(self) -> str:
        words = [f"max_norm={self.norm}"] * (self.norm is not None) + [f"clip_value={self.value}"] * (self.value is not None)
        return " and ".join(words) or "no clipping"


class Clipping:
    """The limits of a step travel with the ends of its slots, so they may be given when the gradients have left already.

    `end_slot` ends the slot if it is its round's last, waits for the step's commit, and returns the norm of the gradient
    that made the newest version, as the job's metrics have it.
    """

    def __init__(self, client: Client, parameters: list[Parameter], end_slot: Callable[[], float]) -> None:
        self._client, self._parameters, self._end_slot = client, parameters, end_slot
        self._told = Limits()  # what the client has
        self._step = -1  # of the newest slot
        self._now = Limits()  # of the current slot, as far as its functions were called
        self._call: FrameType | None = None  # the present call of one of them
        self._values: set[int] = set()  # gradients that clip_grad_value_() has seen
        self._norm = 0.0  # still to be taken by torch's code
        for entry in parameters:
            entry.placeholder.clipping = self

    def slot_ends(self, step: int, slot: int) -> None:
        """Called before the slot's end is sent."""
        if self._now.value is not None and len(self._values) < len(self._parameters):
            raise Unsupported(_SUBSET.format(call="clip_grad_value_", count=len(self._values), all=len(self._parameters),
                                             limit=self._now.value))
        if step == self._step and self._now != self._told:
            raise Invalid(_DIFFERS.format(slot=slot, step=step, now=self._now, told=self._told))
        if self._now.norm != self._told.norm:
            self._client.set_clip_norm(_finite(self._now.norm))
        if self._now.value != self._told.value:
            self._client.set_clip_value(_finite(self._now.value))
        self._told, self._step = self._now, step
        self._now, self._values, self._call = Limits(), set(), None

    def is_called(self, name: str, call: FrameType) -> None:
        """`name` is one of torch's functions, and `call` the running call, in which a gradient is used."""
        if call is self._call:
            return
        given = call.f_locals
        limit = float(given["max_norm" if name == "clip_grad_norm_" else "clip_value"])
        self._must_be_possible(name, limit)
        self._call = call
        if name == "clip_grad_value_":
            self._now = replace(self._now, value=limit)
            return
        self._must_be_whole(given, limit)
        self._now = replace(self._now, norm=limit)
        self._norm = self._end_slot()
        self._call = call

    def take_norm(self, parameter: torch.nn.Parameter) -> torch.Tensor:
        norm, self._norm = self._norm, 0.0
        return torch.tensor(norm, dtype=torch.float32, device=parameter.device)

    def take_values(self, gradients: Sequence[Any]) -> None:
        self._values.update(id(gradient) for gradient in gradients)

    def _must_be_possible(self, name: str, limit: float) -> None:
        mode = self._client.job["job"]["mode"]
        if mode != "sync":
            raise Unsupported(_NEEDS_SYNC.format(call=name, mode=f'"{mode}"'))
        if not limit > 0:
            raise Invalid(_NOT_A_LIMIT.format(call=name, limit=limit))
        own = float(self._client.job["optimizer"].get("clip_norm") or 0.0)
        if name == "clip_grad_norm_" and own not in (0.0, limit):
            raise Invalid(_JOB_S_OWN.format(limit=limit, own=own))

    def _must_be_whole(self, given: dict[str, Any], limit: float) -> None:
        kind = float(given.get("norm_type", 2.0))
        if kind != 2.0:
            raise Unsupported(_OTHER_NORM.format(kind=kind))
        wanted = {id(entry.placeholder) for entry in self._parameters}
        gradients = {id(gradient) for gradient in given.get("grads", ())}
        if gradients != wanted:
            raise Unsupported(_SUBSET.format(call="clip_grad_norm_", count=len(gradients & wanted), all=len(wanted),
                                             limit=limit))


def _finite(limit: float | None) -> float | None:
    """The limit for the servers: an infinite one is none."""
    return limit if limit is not None and math.isfinite(limit) else None
