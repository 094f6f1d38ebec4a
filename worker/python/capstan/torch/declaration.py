"""Declares a script's model to the job: its tensors, in the optimizer's groups."""
from __future__ import annotations

import dataclasses

import torch

from capstan.client import Client
from capstan.errors import Invalid, Unsupported
from capstan.notices import log
from capstan.tensors import Tensor
from capstan.torch.batches import Fetcher
from capstan.torch.orders import key_of
from capstan.torch.parameters import Parameter, buffer_of, is_dense
from capstan.torch.statistics import Wishes
from capstan.torch.values import Values


def declare(client: Client, model: torch.nn.Module, optimizer: torch.optim.Optimizer, fetcher: Fetcher | None,
            wishes: Wishes, *, grouped: bool = True) -> Values:
    """Declares statistics first, then the model's trained parameters in its order, with this process's values as first
    weights. `grouped`: the tensors have the optimizer's groups."""
    _check_embeddings(model)
    parameters = _parameters(model, optimizer)
    values = Values(model, parameters, wishes)
    tensors = values.statistics.tensors()
    tensors += [Tensor(entry.name, tuple(entry.parameter.shape), initial="given", group=entry.group + 1)
                for entry in parameters]
    if not grouped:
        tensors = [dataclasses.replace(tensor, group=0) for tensor in tensors]
    first = values.statistics.first_values()
    first.update((entry.name, buffer_of(entry.parameter)) for entry in parameters)
    client.declare(
        tensors, given={name: memory for name, (_, memory) in first.items()},
        numeric_class=f"torch {torch.__version__}, {torch.get_num_threads()} threads, "
                      f"{parameters[0].parameter.device.type}",
        numeric_fingerprint=key_of(torch.__config__.show()),  # type: ignore[no-untyped-call]
        # Constants are hashed too, because they must be the same in all processes.
        data_fingerprint=key_of(values.constants.digest, fetcher and fetcher.fingerprint))
    return values


def _check_embeddings(model: torch.nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and module.max_norm is not None:
            raise Unsupported(f'"{name}" ({type(module).__name__}) changes its weights in each forward pass '
                              f"(max_norm={module.max_norm}), and the servers keep their own: make it without max_norm")


def _parameters(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[Parameter]:
    groups = {id(parameter): (index, parameter) for index, group in enumerate(optimizer.param_groups)
              for parameter in group["params"]}
    found: list[Parameter] = []
    taken: list[tuple[str, torch.nn.Parameter]] = []  # parameters that the optimizer has
    for name, parameter in model.named_parameters():
        group, _ = groups.pop(id(parameter), (None, None))
        if group is not None:
            taken.append((name, parameter))
        if parameter.requires_grad:  # torch's optimizers skip the others, too
            found.append(Parameter(name, parameter, len(found), _checked(name, parameter, group)))
    frozen = [entry for entry in taken if not entry[1].requires_grad]
    if frozen:
        log.warning("frozen, and left out as torch does, though the optimizer has them: %s",
                    ", ".join(name for name, _ in frozen))
    if groups:
        shapes = ", ".join(str(tuple(parameter.shape)) for _, parameter in list(groups.values())[:4])
        raise Invalid(f"the optimizer has {len(groups)} parameters that are not the model's, of shapes {shapes}: where "
                      "they are a criterion's or another module's, give it to prepare() too: prepare(model, criterion, "
                      "optimizer)")
    if not found:
        raise Invalid("the model has no parameter to train")
    return found


def _checked(name: str, parameter: torch.nn.Parameter, group: int | None) -> int:
    if group is None:
        raise Invalid(f'parameter "{name}" is in no group of the optimizer: add it, or freeze it with '
                      "requires_grad_(False)")
    if parameter.dtype != torch.float32:
        raise Unsupported(f'parameter "{name}" is of {parameter.dtype}; the servers keep float32: leave the model '
                          "in float32 and compute in less with torch.autocast")
    if not is_dense(parameter):
        raise Unsupported(f'parameter "{name}" has gaps or overlaps in its memory (strides {parameter.stride()}): '
                          f"write {_attribute(name)}.data = {_attribute(name)}.detach().contiguous() before prepare()")
    return group


def _attribute(name: str) -> str:
    """The expression with which a script reaches it."""
    words = name.split(".")
    return "model" + "".join(f"[{word}]" if word.isdecimal() else f".{word}" for word in words)
