"""Finds the loss of a backward pass that a script runs by itself. The hooks of parameters do not get it from autograd, but
each pass that Python begins is a call of torch.autograd.backward(), which is on the stack as long as the pass runs."""
from __future__ import annotations

import inspect
import sys
from types import FrameType

import torch

_BACKWARD = inspect.unwrap(torch.autograd.backward).__code__
_FUNCTION = torch.autograd.function.BackwardCFunction.apply.__code__


def _outermost(frame: FrameType | None) -> FrameType | None:
    found = None
    while frame is not None:
        if frame.f_code is _BACKWARD:
            found = frame
        frame = frame.f_back
    return found


def running_call() -> FrameType | None:
    """The running call of torch.autograd.backward(), the outermost if there are several. None: torch.autograd.grad() or C++
    began the pass.

    On a GPU the hooks run in a thread of autograd's, and the call is on the stack of the thread that waits for it.
    """
    found = _outermost(sys._getframe(1))
    if found is None or _is_within_a_function(found):
        others = (_outermost(frame) for frame in sys._current_frames().values())
        waiting = [call for call in others if call is not None and not _is_within_a_function(call)]
        found = waiting[0] if len(waiting) == 1 else found
    return found


def _is_within_a_function(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code is _FUNCTION:
            return True
        frame = frame.f_back
    return False


def is_nested() -> bool:
    """Whether the pass runs within another pass: torch.utils.checkpoint with use_reentrant=True runs one for each of its
    segments."""
    return _is_within_a_function(sys._getframe(1))


def loss_of(call: FrameType | None) -> torch.Tensor | None:
    """The loss with which backward() was called, if it is one number."""
    tensors = None if call is None else call.f_locals.get("tensors")
    if isinstance(tensors, torch.Tensor):
        tensors = (tensors,)
    if not isinstance(tensors, (tuple, list)) or len(tensors) != 1:
        return None
    loss = tensors[0]
    return loss if isinstance(loss, torch.Tensor) and loss.numel() == 1 else None
