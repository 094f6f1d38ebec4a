"""Broadcasts of parameters, of an optimizer's state and of objects."""
from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from capstan.errors import Invalid
from capstan.horovod.operations import broadcast_
from capstan.horovod.process import internal_errors, process


def broadcast_object(obj: Any = None, root_rank: int = 0, session: object = None, name: str | None = None,
                     process_set: object = None) -> Any:
    """Returns the root's object. It travels as a pickle among the processes of the job."""
    process.here
    if process.client is None:
        return obj
    with internal_errors():
        return process.client.broadcast_object(obj, root_rank)


def allgather_object(obj: Any, session: object = None, name: str | None = None, process_set: object = None) -> list[Any]:
    """Returns the objects of all processes, by rank."""
    process.here
    if process.client is None:
        return [obj]
    with internal_errors():
        return process.client.all_gather_object(obj)


def broadcast_parameters(params: Mapping[str, Any] | Iterable[tuple[str, Any]], root_rank: int,
                         prefix: str | None = None) -> None:
    """Replaces parameters by the root's: model.state_dict(), model.named_parameters(), or pairs of name and tensor."""
    items = list(params.items()) if isinstance(params, Mapping) else list(params)
    for entry in items:
        if not (isinstance(entry, tuple) and len(entry) == 2):
            raise ValueError(f"invalid params of type: {type(params)}")
        if isinstance(entry[1], torch.Tensor):
            broadcast_(entry[1], root_rank)


def broadcast_optimizer_state(optimizer: torch.optim.Optimizer, root_rank: int, model: torch.nn.Module | None = None) -> None:
    """Replaces the optimizer's state and hyper-parameters by the root's."""
    if isinstance(optimizer, torch.optim.LBFGS):
        raise ValueError("cannot broadcast torch.optim.LBFGS state")
    state = optimizer.state_dict()
    plain = copy.deepcopy(state)
    found: dict[tuple[Any, Any], torch.Tensor] = {}
    for key, entry in state["state"].items():
        for name, value in entry.items():
            if isinstance(value, torch.Tensor):
                found[key, name] = value
                plain["state"][key][name] = (tuple(value.shape), value.dtype)
    theirs = broadcast_object(plain, root_rank)
    if len(theirs["param_groups"]) != len(state["param_groups"]):
        raise Invalid(f"hvd.broadcast_optimizer_state: rank {root_rank} has {len(theirs['param_groups'])} groups of "
                      f"parameters, and this process {len(state['param_groups'])}")
    for key, entry in theirs["state"].items():
        for name, value in entry.items():
            if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], torch.dtype):
                tensor = found.get((key, name))
                if tensor is None or (tuple(tensor.shape), tensor.dtype) != value:
                    tensor = torch.zeros(value[0], dtype=value[1])
                entry[name] = broadcast_(tensor.clone(), root_rank)
    optimizer.load_state_dict(theirs)
