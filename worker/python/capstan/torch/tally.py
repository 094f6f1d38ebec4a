"""What was computed of the slot under way."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Tally:
    """Of one slot, over all its calls of backward()."""

    samples: int = 0  # of the slot
    computed: int = 0  # samples whose gradients are in
    loss_sum: float = 0.0  # over the samples
    more_to_come: bool = False  # calls of backward() for this slot
    divided: bool | None = None  # its losses, by the number of these calls; None: nobody said it
    metrics: dict[str, tuple[float, float]] = field(default_factory=dict)

    def log(self, metrics: Mapping[str, tuple[Any, Any]]) -> None:
        for name, (total, weight) in metrics.items():
            sums = self.metrics.get(name, (0.0, 0.0))
            self.metrics[name] = sums[0] + float(total), sums[1] + float(weight)
