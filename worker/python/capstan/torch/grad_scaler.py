"""GradScaler: the interface of torch.cuda.amp.GradScaler, for a scale that the coordinator chooses for all
processes."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from capstan.errors import Invalid, Unsupported

if TYPE_CHECKING:
    from capstan.torch.trainer import Trainer


class GradScaler:
    """In a script: scaler.scale(loss).backward(), scaler.step(optimizer), scaler.update(), as with PyTorch's. prepare()
    returns one for a PyTorch scaler that it is given.

    The job has worker.precision = "fp16". The scale begins at 65536. If any process has a gradient that is not finite,
    all skip the step and the scale is halved; 2000 good steps double it. Servers unscale the sum in float32. If
    `enabled` is False, calls do nothing, as torch's do.
    """

    def __init__(self, trainer: Trainer, enabled: bool = True) -> None:
        self._enabled = enabled
        if enabled and trainer.client.job.get("worker", {}).get("precision") != "fp16":
            raise Invalid('the job computes without a loss scale; set worker.precision = "fp16" in the job file')
        self._trainer = trainer

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """Returns the loss times the round's scale."""
        return self._trainer._computing.scale(loss) if self._enabled else loss

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        """Does nothing: the servers unscale, before they clip by what clip_grad_norm_() is given."""

    def step(self, optimizer: torch.optim.Optimizer, *arguments: Any, **options: Any) -> None:
        """Calls optimizer.step(). Whether the step is skipped is decided when the gradients of all processes are
        there."""
        optimizer.step(*arguments, **options)

    def update(self) -> None:
        """Does nothing: the next round's scale comes with its weights."""

    def get_scale(self) -> float:
        """The current round's scale."""
        return self._trainer.loss_scale if self._enabled else 1.0

    def is_enabled(self) -> bool:
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Empty: the job's snapshots have the scale and the count of good steps."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state:
            raise Unsupported("the job has its scale in its own snapshots; go on from them with capstan launch "
                              "--resume")
