"""This process's number among those that `capstan launch` starts."""
from __future__ import annotations

import os

from capstan.errors import Invalid


def place_of_launch() -> tuple[int, int] | None:
    """CAPSTAN_INDEX, from 0, and CAPSTAN_INDEXES; None: they are not set."""
    index, indexes = os.environ.get("CAPSTAN_INDEX"), os.environ.get("CAPSTAN_INDEXES")
    if index is None or indexes is None:
        return None
    if not (index.isdecimal() and indexes.isdecimal() and int(index) < int(indexes)):
        raise Invalid(f"CAPSTAN_INDEX is {index!r} and CAPSTAN_INDEXES is {indexes!r}: an index is counted from 0 "
                      "and below their number; unset both, or set them as capstan launch does")
    return int(index), int(indexes)
