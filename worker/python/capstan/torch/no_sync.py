"""model.no_sync(), which scripts for DDP call."""
from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch


class NoSync:
    """A prepared model's attribute. Copies of the model share it; a saved model has one that does nothing, and is read
    without capstan."""

    def __init__(self, block: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
        self._block = block

    def __call__(self) -> contextlib.AbstractContextManager[None]:
        return self._block()

    def __deepcopy__(self, _: object) -> NoSync:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial, (contextlib.nullcontext,)


def give(model: torch.nn.Module, block: Callable[[], contextlib.AbstractContextManager[None]]) -> None:
    """Gives the model no_sync(), unless it has one."""
    if not hasattr(model, "no_sync"):
        model.__dict__["no_sync"] = NoSync(block)
