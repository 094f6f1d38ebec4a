"""How the tensors of one group are updated, where the program says so, step by step, and not the job file."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HyperParameters:
    """All finite and not negative, the betas below 1. What the job's optimizer does not use is left at 0."""

    learning_rate: float
    momentum: float = 0.0  # of momentum, lars
    betas: tuple[float, float] = (0.0, 0.0)  # of adam, adamw, lamb
    eps: float = 0.0  # of adam, adamw, adagrad, lamb
    weight_decay: float = 0.0  # of tensors that it does not spare
    nesterov: bool = False  # of momentum
