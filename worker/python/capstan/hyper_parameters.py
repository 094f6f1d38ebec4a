"""How the tensors of one group are updated, if the program and not the job file gives the numbers."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HyperParameters:
    """All values are finite and not negative; the betas and alpha are below 1. Leave values that the job's optimizer
    does not use at 0. amsgrad and centered are the job file's, because the servers' arrays follow from them."""

    learning_rate: float
    momentum: float = 0.0  # momentum, lars; rmsprop, if the job file gives it a momentum
    betas: tuple[float, float] = (0.0, 0.0)  # adam, adamw, adamax, nadam, radam, lion, lamb
    eps: float = 0.0  # all but sgd, momentum, lion and lars
    weight_decay: float = 0.0  # not applied to tensors with weight_decay=False
    nesterov: bool = False  # of momentum
    dampening: float = 0.0  # momentum
    alpha: float = 0.0  # rmsprop; adadelta: its rho
    lr_decay: float = 0.0  # adagrad
    initial_accumulator_value: float = 0.0  # adagrad: what the first update finds in the sum of squares
    momentum_decay: float = 0.0  # nadam; like its beta1, it must stay the same in all steps
    maximize: bool = False  # updates go up the gradient
    decoupled_weight_decay: bool = False  # nadam, radam
