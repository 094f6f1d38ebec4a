"""A placeholder for a gradient that was taken over. PyTorch's own zero_grad() and clipping use it like a gradient; any other
use raises an error that says what to write instead."""
from __future__ import annotations

import inspect
import os
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.utils.clip_grad import clip_grad_norm_, clip_grad_value_

from capstan.errors import Unsupported

if TYPE_CHECKING:
    from capstan.torch.clipping import Clipping

_LEFT = "the gradients have left: backward() sends them as they become final. "
_SCALER = ("torch's GradScaler cannot unscale them: write model, optimizer, scaler = trainer.prepare(model, optimizer, "
           'scaler), and set worker.precision = "fp16" in the job file')
_UPDATE = ("An update of the weights by hand is the servers' work: give prepare() a torch.optim optimizer with this "
           "learning rate, and write optimizer.step() in place of the update")
_READ = ("The norm of the whole gradient is what torch.nn.utils.clip_grad_norm_(model.parameters(), float(\"inf\")) returns, "
         "and in the job's metrics as grad_norm; a gradient of this process alone is what torch.autograd.grad(loss, "
         "parameters) returns, before loss.backward(). Clipping by the norm is clip_grad_norm_()")
_NORMS = ("norm", "linalg_vector_norm", "vector_norm")
_DATA = vars(torch._C._TensorBase)["data"].__get__  # type: ignore[attr-defined]
# By their code: a script's own function of that name may do something else.
_CLIPS = {inspect.unwrap(call).__code__: call.__name__
          for call in (clip_grad_norm_, clip_grad_value_)}
_TORCH = os.path.dirname(torch.__file__)


def _caller() -> tuple[str, FrameType | None]:
    """The function of torch's that uses the placeholder, and its frame."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        name, file = frame.f_code.co_name, frame.f_code.co_filename
        if frame.f_code in _CLIPS:
            return _CLIPS[frame.f_code], frame
        if file.startswith(_TORCH) and name in ("zero_grad", "_apply"):
            return name, None
        if file.endswith("amp/grad_scaler.py"):
            return "GradScaler", None
        frame = frame.f_back
    return "", None


def _refusal(caller: str, call: str, arguments: tuple[Any, ...]) -> Unsupported:
    in_place = call.endswith("_") and not call.endswith("__")
    if caller == "GradScaler":
        return Unsupported(_LEFT + _SCALER)
    return Unsupported(_LEFT + (_UPDATE if in_place and arguments and not isinstance(arguments[0], Sent) else _READ))


def _first(arguments: list[Any]) -> Sent | None:
    """The first placeholder among the arguments, or in lists among them."""
    parts = [part for item in arguments for part in (item if isinstance(item, (list, tuple)) else (item,))]
    return next((part for part in parts if isinstance(part, Sent)), None)


class Sent(torch.Tensor):
    """The placeholder for a gradient that was taken over."""

    parameter: torch.nn.Parameter
    clipping: Clipping | None

    @classmethod
    def in_place_of(cls, parameter: torch.nn.Parameter) -> Sent:
        made: Sent = torch.zeros((), device=parameter.device).expand(parameter.shape).as_subclass(cls)
        made.parameter, made.clipping = parameter, None
        return made

    @classmethod
    def __torch_function__(cls, function: Any, _: object, arguments: tuple[Any, ...] = (), options: Any = None) -> Any:
        caller, frame = _caller()
        call = getattr(function, "__name__", "")
        found = _first([*arguments, *(options or {}).values()])
        if caller == "" or found is None:
            raise _refusal(caller, call, arguments)
        if caller != "GradScaler" and call == "__get__" and function != _DATA:
            with torch._C.DisableTorchFunction():  # type: ignore[attr-defined]
                return function(*arguments, **(options or {}))
        if frame is not None and found.clipping is not None:
            found.clipping.is_called(caller, frame)
        answer = getattr(found, f"_in_{caller}")(call, arguments)
        if answer is NotImplemented:
            raise _refusal(caller, call, arguments)
        return answer

    def _in_zero_grad(self, call: str, _: object) -> Any:
        if call == "zero_":
            self.parameter.grad = None
        return self if call in ("zero_", "requires_grad_", "detach_") else NotImplemented

    def _in__apply(self, call: str, _: object) -> Any:
        """Module.to() and its like, which convert gradients too."""
        if call == "is_floating_point" or call == "_has_compatible_shallow_copy_type":
            return True
        if call in ("is_complex", "__set__"):
            return False
        return self

    def _in_clip_grad_norm_(self, call: str, arguments: tuple[Any, ...]) -> Any:
        """The first gradient is taken to have the norm of all of them, and each other one 0."""
        if call in _NORMS:
            return self._norm()
        if call == "_foreach_norm":
            return [each._norm() for each in arguments[0]]
        if call == "_foreach_mul_":
            return None
        return self if call in ("__get__", "detach", "to", "mul_") else NotImplemented

    def _norm(self) -> torch.Tensor:
        """0 where the script clips by itself, which the mean gradient, and not a placeholder, is for."""
        if self.clipping is None:
            return torch.zeros((), device=self.parameter.device)
        return self.clipping.take_norm(self.parameter)

    def _in_clip_grad_value_(self, call: str, arguments: tuple[Any, ...]) -> Any:
        if self.clipping is None:
            return self
        if call in ("clamp_", "clamp_min_", "_foreach_clamp_min_"):
            self.clipping.take_values(arguments[0] if isinstance(arguments[0], (list, tuple)) else [self])
        known = ("__get__", "clamp_", "clamp_min_", "clamp_max_", "_foreach_clamp_min_", "_foreach_clamp_max_")
        return self if call in known else NotImplemented

    def _in_GradScaler(self, *_: object) -> Any:
        return NotImplemented
