"""The parameters of a script's model as tensors of the job: their values, gradients and places in the client's
memory."""
from __future__ import annotations

import ctypes
import hashlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from capstan.tensors import Tensors
from capstan.torch.sent import Sent


def copied(memory: memoryview[float], tensor: torch.Tensor) -> torch.Tensor:
    """A copy of `memory` on the tensor's device, in the tensor's memory order."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the memory is read-only, and is only read here
        values = torch.frombuffer(memory, dtype=torch.float32)
    copy: torch.Tensor = torch.empty_like(tensor, requires_grad=False).copy_(values.view(tensor.shape))
    return copy


def buffer_of(tensor: torch.Tensor) -> tuple[torch.Tensor, memoryview[float]]:
    """The tensor's values on the CPU and a view of them; the values own the memory."""
    values = tensor.detach().cpu().resolve_neg().contiguous()
    memory = (ctypes.c_char * (4 * values.numel())).from_address(values.data_ptr())
    return values, memoryview(memory).cast("B").cast("f", tuple(values.shape))


def digest_of(tensors: Iterator[tuple[str, torch.Tensor]]) -> int:
    digest = hashlib.blake2b(digest_size=8)
    for name, tensor in tensors:
        values = tensor.detach().cpu().contiguous()
        digest.update(repr((name, tuple(values.shape), str(values.dtype))).encode())
        digest.update((ctypes.c_char * (values.numel() * values.element_size())).from_address(values.data_ptr()))
    return int.from_bytes(digest.digest(), "little")


class Parameter:
    """A parameter of the model, its place among the job's tensors, and the hook that is called with its gradient."""

    def __init__(self, name: str, parameter: torch.nn.Parameter, index: int, group: int) -> None:
        self.name, self.parameter, self.index, self.group = name, parameter, index, group
        self.has_gradient = False  # the current slot's gradient is in the client's memory
        self.final = False  # the gradient is complete
        self.adds_to_old = False  # zero_grad() has not cleared the step before's, to which PyTorch would add this one
        self.placeholder = Sent.in_place_of(parameter)
        self._node: Any = None
        self._views: dict[int, torch.Tensor] = {}  # by the address of the client's buffer

    def view(self, memory: Tensors) -> torch.Tensor:
        """This parameter's part of the client's memory."""
        if memory.address not in self._views:
            self._views[memory.address] = torch.frombuffer(memory[self.name], dtype=torch.float32).view(
                self.parameter.shape)
        return self._views[memory.address]

    def hide_gradient(self) -> None:
        self.parameter.grad = self.placeholder

    def clear_gradient(self) -> None:
        self.parameter.grad = None

    @property
    def is_hidden(self) -> bool:
        """Whether the placeholder for a gradient that was taken over is in the gradient's place."""
        return self.parameter.grad is self.placeholder

    def has_own_gradient(self) -> bool:
        """Whether there is a gradient that was not taken over, because it was there before the slot."""
        return self.parameter.grad is not None and not self.is_hidden

    def call_when_ready(self, before: Callable[[Parameter], None], after: Callable[[Parameter], None]) -> None:
        """Calls `before` when a pass is about to add a gradient, and `after` when it has."""
        self.parameter.register_hook(lambda _: before(self))  # type: ignore[no-untyped-call]
        if hasattr(self.parameter, "register_post_accumulate_grad_hook"):
            self.parameter.register_post_accumulate_grad_hook(lambda _: after(self))
            return
        # Before torch 2.1: hook the autograd node that accumulates the gradient. self._node keeps that node alive.
        self._node = self.parameter.expand_as(self.parameter).grad_fn.next_functions[0][0]
        self._node.register_hook(lambda *_: after(self))


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill its memory without gaps, in any order (for example channels_last)."""
    wanted = 1
    for stride, size in sorted((stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size > 1):
        if stride != wanted:
            return False
        wanted *= size
    return True


def lay_over(parameters: list[Parameter], weights: Tensors) -> None:
    """Gives the parameters these values. Contiguous parameters on the CPU share the memory; on other devices, or in
    another memory order (channels_last), they are copied."""
    with torch.no_grad():
        for entry in parameters:
            values = entry.view(weights)
            if entry.parameter.device.type != "cpu" or not entry.parameter.is_contiguous():
                entry.parameter.copy_(values)
            elif entry.parameter.data_ptr() != values.data_ptr():
                entry.parameter.data = values
