"""GradScaler: torch.cuda.amp.GradScaler's calls, where the coordinator decides the scale for all processes."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from capstan.errors import Invalid, Unsupported

if TYPE_CHECKING:
    from capstan.torch.trainer import Trainer


class GradScaler:
    """In a script: trainer.backward(scaler.scale(loss)), scaler.step(optimizer), scaler.update().

    The job has worker.precision = "fp16": the scale begins at 65536, a step in which any process has a gradient that is
    not finite is skipped by all and halves it, 2000 good steps double it. Servers unscale, in float32, after adding.
    Where `enabled` is False, calls do nothing, as torch's.
    """

    def __init__(self, trainer: Trainer, enabled: bool = True) -> None:
        self._enabled = enabled
        if enabled and trainer.client.job.get("worker", {}).get("precision") != "fp16":
            raise Invalid('the job computes without a loss scale; set worker.precision = "fp16" in the job file')
        self._trainer = trainer

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss itself: Trainer.backward() scales it with what the round wants."""
        return loss

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        if not self._enabled:
            return
        if self._trainer.client.job["optimizer"].get("clip_norm"):
            return  # the servers unscale, and clip by the norm of the whole
        raise Unsupported("unscale_(): gradients have left already when it is called, and the servers unscale them. "
                          "Where it stands before a clip_grad_norm_(), set optimizer.clip_norm in the job file, and "
                          "leave out clip_grad_norm_(); else leave it out")

    def step(self, optimizer: torch.optim.Optimizer, *arguments: Any, **options: Any) -> None:
        """optimizer.step(): whether the step counts is known when all processes' gradients are in."""
        optimizer.step(*arguments, **options)

    def update(self) -> None:
        """Nothing: the scale of the next round came with its weights."""

    def get_scale(self) -> float:
        """Of the round under way."""
        return self._trainer.loss_scale if self._enabled else 1.0

    def is_enabled(self) -> bool:
        return self._enabled

    def state_dict(self) -> dict[str, Any]:
        """Nothing: scale and count of good steps are in the job's snapshots."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state:
            raise Unsupported("the job has its scale in its own snapshots; go on from them with capstan launch "
                              "--resume")
