"""Notices the backward passes that a script runs by itself, with loss.backward()."""
from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import NamedTuple, Protocol

import torch

from capstan.torch import roots


class Kind(NamedTuple):
    """How the gradients of a pass are taken."""

    last: bool  # the pass is its slot's last: its gradients leave
    factor: float  # for its gradients
    syncs: bool  # it is not within no_sync(), where zero_grad() may still discard what it gives


class Owner(Protocol):
    """Computes a slot by these passes."""

    def takes_part(self) -> bool:
        """Whether gradients are the job's now: False before prepare() returns and after the job's end."""

    def pass_begins(self, loss: torch.Tensor | None) -> Kind:
        """`loss` is None if it cannot be seen."""

    def pass_ends(self, loss: torch.Tensor | None) -> None:
        """All gradients of the pass are there."""


class PlainPasses:
    """One pass after the other. A pass begins with the first gradient that a parameter's hook sees, and ends with a
    callback from autograd.

    torch.utils.checkpoint with use_reentrant=True runs passes within a pass. Their ends are not the end; the next gradient,
    or the owner's next call, shows whether the pass goes on.
    """

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.is_open = False
        self._call: FrameType | None = None  # the pass is a call of torch.autograd.backward()
        self._loss: torch.Tensor | None = None
        self._is_over = False  # the pass has ended, or one within it
        self._inner_ended = False  # autograd is to call once more

    def notice(self, at_end: Callable[[], None], settle: Callable[[], None]) -> bool | None:
        """A gradient is about to come. Returns True if a new pass has begun with it, False if it belongs to the present
        one, None if it is not the job's, as that of torch.autograd.grad() is. `settle` ends an earlier pass; what it raises
        is raised when the new one is open. `at_end` is called at the end of the pass."""
        call = roots.running_call()
        if call is None:
            return None
        if self.is_open and call is self._call:
            if self._inner_ended:
                self._is_over = self._inner_ended = False
                _call_at_end(at_end)
            return False
        refusal = None
        if self.is_open:
            try:
                settle()
            except Exception as error:  # leaves the new pass
                refusal = error
        if not self.takes_part:
            return None
        self.is_open, self._call, self._loss = True, call, roots.loss_of(call)
        self._is_over = self._inner_ended = False
        _call_at_end(at_end)
        if refusal is not None:
            raise refusal
        return True

    @property
    def takes_part(self) -> bool:
        """Whether gradients are the job's now."""
        return self._owner.takes_part()

    def begins(self) -> Kind:
        return self._owner.pass_begins(self._loss)

    def has_ended(self) -> bool:
        """Called at an end. False: it was the end of a pass within the pass."""
        self._is_over, self._inner_ended = True, roots.is_nested()
        return not self._inner_ended

    def close(self) -> tuple[bool, torch.Tensor | None]:
        """Returns whether the pass came to its end, or was left by an exception; and its loss."""
        self.is_open, self._call = False, None
        loss, self._loss = self._loss, None
        return self._is_over, loss

    def ends(self, loss: torch.Tensor | None) -> None:
        self._owner.pass_ends(loss)


def _call_at_end(call: Callable[[], None]) -> None:
    torch.autograd.Variable._execution_engine.queue_callback(call)
