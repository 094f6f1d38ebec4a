"""StandIn: the base of a wrapper that has the attributes of what it wraps."""
from __future__ import annotations

from typing import Any


class StandIn:
    """Takes the place of `original`. What a subclass does not define comes from there."""

    def __init__(self, original: Any) -> None:
        self._original = original

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_original":  # copy and pickle ask before __init__()
            raise AttributeError(name)
        return getattr(self._original, name)
