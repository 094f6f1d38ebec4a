"""The arguments of prepare(), in any order."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import DataLoader

from capstan.errors import Invalid, Unsupported

_ACCELERATE_SCALES = ('Accelerator(mixed_precision="fp16") has a GradScaler of the process\'s own: write mixed_precision="bf16", or leave it '
                      "out")
_NAMES = ("model", "optimizer", "loader", "scheduler", "scaler")


def _name_of(thing: Any) -> str:
    if isinstance(thing, torch.nn.Module):
        return "model"
    if isinstance(thing, torch.optim.Optimizer):
        return "optimizer"
    if isinstance(thing, DataLoader):
        return "loader"
    if type(thing).__name__ == "GradScaler":
        return "scaler"
    if hasattr(thing, "step"):
        return "scheduler"
    raise Invalid(f"prepare() was given something of type {type(thing).__name__}; it takes models, an optimizer, "
                  "DataLoaders, a scheduler and a GradScaler, in any order")


def _unwrapped(thing: Any, name: str) -> Any:
    """The optimizer or scheduler of torch's within one that Accelerator.prepare() of Hugging Face has returned."""
    while type(thing).__module__.split(".")[0] == "accelerate" and hasattr(thing, name):
        if getattr(thing, "scaler", None) is not None:
            raise Unsupported(_ACCELERATE_SCALES)
        thing = getattr(thing, name)
    return thing


@dataclass
class Arguments:
    """One argument of each kind, further models, which are trained together, and further loaders, which stay as they
    are."""

    models: list[torch.nn.Module] = field(default_factory=list)
    optimizer: Any = None
    loader: Any = None  # the first loader, whose batches the job chooses
    scheduler: Any = None
    scaler: Any = None
    accumulates: int = 1  # batches whose gradients the loop adds up for each optimizer.step()
    given: list[Any] = field(default_factory=list)  # all arguments, in the given order

    @classmethod
    def sort(cls, given: tuple[Any, ...], named: dict[str, Any], accumulates: int = 1) -> Arguments:
        unknown = sorted(named.keys() - set(_NAMES))
        if unknown:
            raise TypeError(f"prepare() has no argument {unknown[0]!r}; it has {', '.join(_NAMES)}")
        found = cls(accumulates=accumulates)
        for thing in (*given, *named.values()):
            if thing is not None:
                found._add(thing, _name_of(thing))
        if not found.models or found.optimizer is None:
            raise Invalid("prepare() wants a model and its optimizer; loader and scheduler may come with them")
        if any(isinstance(model, torch.nn.parallel.DistributedDataParallel) for model in found.models):
            raise Invalid("prepare() was given a DistributedDataParallel, whose processes would average the gradients "
                          "before the job does: give it model.module, and leave init_process_group() out")
        return found

    @property
    def model(self) -> torch.nn.Module:
        """The model of the job."""
        return self.models[0] if len(self.models) == 1 else torch.nn.ModuleList(self.models)

    def _add(self, thing: Any, name: str) -> None:
        self.given.append(thing)
        thing = _unwrapped(thing, name)
        if name == "model":
            self.models.append(thing)
        elif getattr(self, name) is None:
            setattr(self, name, thing)
        elif name == "optimizer":
            raise Invalid("prepare() was given two optimizers, and a job has one: where they step together, make them one, "
                          "with a group for each; where they take turns, as in a GAN, train each model in a job and a trainer "
                          "of its own, and write `with trainer.no_sync():` around a backward() whose gradients in the other "
                          "trainer's model are to be discarded")
        elif name != "loader":
            raise Invalid(f"prepare() was given two {name}s: a job has one")

    def answer(self, loader: Any, scaler: Any) -> Any:
        """The same objects in the same order, with `loader` in place of the first loader, and `scaler` in that of the
        scaler."""
        changed = {id(self.loader): loader, id(self.scaler): scaler}
        return tuple(changed.get(id(thing), thing) for thing in self.given)
