"""Counts what was computed in the current slot."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Tally:
    """Totals of one slot over all its calls of backward()."""

    samples: int = 0  # of the slot
    computed: int = 0  # samples whose gradients are computed
    loss_sum: float = 0.0  # sum of the samples' losses
    newest_loss: float = 0.0  # of the newest loss.backward()
    is_unseen: bool = False  # a loss was not visible in loss.backward(): the job records none
    more_to_come: bool = False  # further calls of backward() follow for this slot
    divided: bool | None = None  # whether losses are divided by the number of these calls; None: not given
    metrics: dict[str, tuple[float, float]] = field(default_factory=dict)

    def log(self, metrics: Mapping[str, tuple[Any, Any]]) -> None:
        for name, (total, weight) in metrics.items():
            sums = self.metrics.get(name, (0.0, 0.0))
            self.metrics[name] = sums[0] + float(total), sums[1] + float(weight)
