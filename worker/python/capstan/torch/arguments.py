"""The arguments of prepare(), in any order."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import DataLoader

from capstan.errors import Invalid

_NAMES = ("model", "optimizer", "loader", "scheduler")


def _name_of(thing: Any) -> str:
    if isinstance(thing, torch.nn.Module):
        return "model"
    if isinstance(thing, torch.optim.Optimizer):
        return "optimizer"
    if isinstance(thing, DataLoader):
        return "loader"
    if hasattr(thing, "step"):
        return "scheduler"
    raise Invalid(f"prepare() was given something of type {type(thing).__name__}; it takes a model, an optimizer, "
                  "DataLoaders and a scheduler, in any order")


@dataclass
class Arguments:
    """One argument of each kind, and further loaders, which stay as they are."""

    model: Any = None
    optimizer: Any = None
    loader: Any = None  # the first loader, whose batches the job chooses
    scheduler: Any = None
    given: list[Any] = field(default_factory=list)  # all arguments, in the given order

    @classmethod
    def sort(cls, given: tuple[Any, ...], named: dict[str, Any]) -> Arguments:
        unknown = sorted(named.keys() - set(_NAMES))
        if unknown:
            raise TypeError(f"prepare() has no argument {unknown[0]!r}; it has {', '.join(_NAMES)}")
        found = cls()
        for thing in (*given, *named.values()):
            if thing is not None:
                found._add(thing, _name_of(thing))
        if found.model is None or found.optimizer is None:
            raise Invalid("prepare() wants a model and its optimizer; loader and scheduler may come with them")
        if isinstance(found.model, torch.nn.parallel.DistributedDataParallel):
            raise Invalid("prepare() was given a DistributedDataParallel, whose processes would average the gradients "
                          "before the job does: give it model.module, and leave init_process_group() out")
        return found

    def _add(self, thing: Any, name: str) -> None:
        self.given.append(thing)
        if getattr(self, name) is None:
            setattr(self, name, thing)
        elif name == "model":
            raise Invalid("prepare() was given two models: make them one, torch.nn.ModuleList([first, second]), with "
                          "one optimizer over both, or train each in a job and a trainer of its own")
        elif name != "loader":
            raise Invalid(f"prepare() was given two {name}s: a job has one")

    def answer(self, loader: Any) -> Any:
        """The same objects in the same order, with `loader` in place of the first loader."""
        return tuple(loader if thing is self.loader else thing for thing in self.given)
