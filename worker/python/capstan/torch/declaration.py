"""What a script's model is for the job: its tensors, in the groups of the optimizer."""
from __future__ import annotations

import torch

from capstan.client import Client
from capstan.errors import Invalid, Unsupported
from capstan.tensors import Tensor
from capstan.torch.batches import Fetcher, key_of
from capstan.torch.parameters import Parameter, buffer_of, digest_of


def declare(client: Client, model: torch.nn.Module, optimizer: torch.optim.Optimizer,
            fetcher: Fetcher | None) -> list[Parameter]:
    """The trained parameters, in the model's order, whose first weights this process brings."""
    _check_norms(model)
    parameters = _parameters(model, optimizer)
    tensors = [Tensor(entry.name, tuple(entry.parameter.shape), initial="given", group=entry.group + 1)
               for entry in parameters]
    # What is not trained has to be the same everywhere.
    frozen = digest_of((name, tensor) for name, tensor in [*model.named_parameters(), *model.named_buffers()]
                       if not tensor.requires_grad)
    first = {entry.name: buffer_of(entry.parameter) for entry in parameters}
    client.declare(
        tensors, given={name: memory for name, (_, memory) in first.items()},
        numeric_class=f"torch {torch.__version__}, {torch.get_num_threads()} threads, "
                      f"{parameters[0].parameter.device.type}",
        numeric_fingerprint=key_of(torch.__config__.show()),  # type: ignore[no-untyped-call]
        data_fingerprint=key_of(frozen, fetcher and fetcher.fingerprint))
    return parameters


def _check_norms(model: torch.nn.Module) -> None:
    for name, module in model.named_modules():
        if getattr(module, "track_running_stats", False):
            raise Unsupported(f'"{name}" ({type(module).__name__}) keeps running statistics, which the job would '
                              "lose; make it with track_running_stats=False, or use a norm without them")


def _parameters(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[Parameter]:
    groups = {id(parameter): (index, parameter) for index, group in enumerate(optimizer.param_groups)
              for parameter in group["params"]}
    found: list[Parameter] = []
    for name, parameter in model.named_parameters():
        group, _ = groups.pop(id(parameter), (None, None))
        if parameter.requires_grad:  # torch's optimizers pass over the others, too
            found.append(Parameter(name, parameter, len(found), _checked(name, parameter, group)))
    if groups:
        shapes = ", ".join(str(tuple(parameter.shape)) for _, parameter in list(groups.values())[:4])
        raise Invalid(f"the optimizer has {len(groups)} parameters that are not the model's, of shapes {shapes}: where "
                      "they are a criterion's or another module's, give prepare() all of them as one model, "
                      "torch.nn.ModuleList([model, criterion]), and go on calling each by its own name")
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
    if not parameter.is_contiguous():
        raise Unsupported(f'parameter "{name}" is not contiguous (strides {parameter.stride()}); make it so before '
                          "prepare()")
    return group
