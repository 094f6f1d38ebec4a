"""How the tensors of one group are updated, if the program and not the job file gives the numbers."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HyperParameters:
    """All values are finite and not negative; the betas are below 1. Leave values that the job's optimizer does not use
    at 0."""

    learning_rate: float
    momentum: float = 0.0  # momentum, lars
    betas: tuple[float, float] = (0.0, 0.0)  # adam, adamw, lamb
    eps: float = 0.0  # adam, adamw, adagrad, lamb
    weight_decay: float = 0.0  # not applied to tensors with weight_decay=False
    nesterov: bool = False  # of momentum
