"""This process's number among the job's processes."""
from __future__ import annotations

from dataclasses import dataclass

from capstan.place import place_of_launch


@dataclass(frozen=True)
class Identity:
    """The rank passed to connect(), or the index from capstan launch. A process that is started as a replacement has
    the same number. Without a number, a process is identified by its slots."""

    rank: int | None = None
    ranks: int = 0

    @classmethod
    def given(cls, rank: int | None, ranks: int) -> Identity:
        if rank is not None:
            return cls(rank, ranks)
        place = place_of_launch()
        return cls() if place is None else cls(*place)

    def rank_with(self, slots: list[int]) -> int:
        """The number of the process that has these slots. -1: it has neither a number nor a slot."""
        return self.rank if self.rank is not None else min(slots, default=-1)
