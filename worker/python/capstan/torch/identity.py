"""This process's number among the job's processes."""
from __future__ import annotations

import os
from dataclasses import dataclass

from capstan.errors import Invalid


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
        index, indexes = os.environ.get("CAPSTAN_INDEX"), os.environ.get("CAPSTAN_INDEXES")
        if index is None or indexes is None:
            return cls()
        if not (index.isdecimal() and indexes.isdecimal() and int(index) < int(indexes)):
            raise Invalid(f"CAPSTAN_INDEX is {index!r} and CAPSTAN_INDEXES is {indexes!r}: an index is counted from 0 "
                          "and below their number; unset both, or set them as capstan launch does")
        return cls(int(index), int(indexes))

    def rank_with(self, slots: list[int]) -> int:
        """The number of the process that has these slots. -1: it has neither a number nor a slot."""
        return self.rank if self.rank is not None else min(slots, default=-1)
