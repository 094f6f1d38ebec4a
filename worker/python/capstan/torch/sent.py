"""A placeholder for a gradient between backward() and step(). The gradient was sent, and each use of the placeholder
raises an error that says what to write instead."""
from __future__ import annotations

import sys
from typing import Any

import torch

from capstan.errors import Unsupported

_LEFT = "the gradients have left: trainer.backward() sends them as they become final. "
_CLIP_VALUE = ("clip_grad_value_() has no counterpart on the servers, which clip by the norm of the whole gradient: "
               "set optimizer.clip_norm in the job file, and leave this line out")
_SCALER = ("torch's GradScaler cannot unscale them: write scaler = capstan.torch.GradScaler(trainer), and set "
           'worker.precision = "fp16" in the job file')
_UPDATE = ("An update of the weights by hand is the servers' work: give prepare() a torch.optim optimizer with this "
           "learning rate, and write optimizer.step() in place of the update")
_READ = ("The norm of the whole gradient is in the job's metrics as grad_norm; a gradient of this process alone is "
         "what torch.autograd.grad(loss, parameters) returns, before trainer.backward(loss). Clipping by the norm is "
         "the job file's optimizer.clip_norm")


def _clipping(limit: object) -> str:
    value = f" = {limit}" if isinstance(limit, (int, float)) else ""
    return ("clip_grad_norm_() is the job file's optimizer.clip_norm, by the norm over all processes: set "
            f"optimizer.clip_norm{value} there, and leave this line out")


def _answer(call: str, arguments: tuple[object, ...]) -> str:
    """Chooses the message by the torch functions on the stack, or by what is done with the gradient."""
    frame = sys._getframe(2)
    while frame is not None:
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if name == "clip_grad_norm_":
            return _clipping(frame.f_locals.get("max_norm"))
        if name == "clip_grad_value_":
            return _CLIP_VALUE
        if file.endswith("amp/grad_scaler.py"):
            return _SCALER
        frame = frame.f_back  # type: ignore[assignment]
    in_place = call.endswith("_") and not call.endswith("__")
    return _UPDATE if in_place and arguments and not isinstance(arguments[0], Sent) else _READ


class Sent(torch.Tensor):
    """The placeholder for a gradient that was sent."""

    @classmethod
    def __torch_function__(cls, function: Any, _: object, arguments: tuple[object, ...] = (),
                           options: object = None) -> Any:
        raise Unsupported(_LEFT + _answer(getattr(function, "__name__", ""), arguments))
