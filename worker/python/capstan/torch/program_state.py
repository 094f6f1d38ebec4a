"""Converts the state of a script's optimizer and scheduler to bytes and back: numbers and texts as JSON, tensors as their
memory. Every value is restored exactly, and equal states have equal bytes."""
from __future__ import annotations

import ctypes
import json
import zlib
from typing import Any

import torch

from capstan.errors import Unsupported
from capstan.torch.kept_state import from_json, is_code, to_json

_TENSOR = "\0tensor"  # marks the place of a tensor: (_TENSOR, its type, shape, whether it is on the parameter's device)
_LENGTH = 8  # bytes of the number in front of the JSON


def pack(state: Any, name: str, device: torch.device) -> bytes:
    """`name` names the state in errors. `device`: the parameters'."""
    tensors: list[torch.Tensor] = []
    text = json.dumps(to_json(_without_tensors(state, tensors, name, device), name), separators=(",", ":"))
    head = zlib.compress(text.encode())
    return b"".join((len(head).to_bytes(_LENGTH, "little"), head, *map(_bytes_of, tensors)))


def unpack(data: bytes, device: torch.device) -> Any:
    length = int.from_bytes(data[:_LENGTH], "little")
    tree = from_json(json.loads(zlib.decompress(data[_LENGTH:_LENGTH + length])))
    rest = bytearray(data[_LENGTH + length:])
    return _with_tensors(tree, rest, [0], device)


def _without_tensors(value: Any, tensors: list[torch.Tensor], name: str, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            raise Unsupported(f"{name} is a tensor of layout {value.layout}, and the job keeps dense ones")
        tensors.append(value)
        return _TENSOR, str(value.dtype).removeprefix("torch."), tuple(value.shape), value.device == device
    if type(value) in (list, tuple):
        return type(value)(_without_tensors(item, tensors, f"{name}[{index}]", device)
                           for index, item in enumerate(value))
    if isinstance(value, dict):
        return {key: _without_tensors(item, tensors, f"{name}[{key!r}]", device) for key, item in value.items()
                if not is_code(item)}
    return value


def _with_tensors(value: Any, memory: bytearray, used: list[int], device: torch.device) -> Any:
    if isinstance(value, tuple) and value[:1] == (_TENSOR,):
        _, kind, shape, with_parameters = value
        dtype: torch.dtype = getattr(torch, kind)
        tensor = torch.empty(shape, dtype=dtype)
        size = tensor.numel() * tensor.element_size()
        ctypes.memmove(tensor.data_ptr(), bytes(memory[used[0]:used[0] + size]), size)
        used[0] += size
        return tensor.to(device) if with_parameters else tensor
    if type(value) in (list, tuple):
        return type(value)(_with_tensors(item, memory, used, device) for item in value)
    if isinstance(value, dict):
        return {key: _with_tensors(item, memory, used, device) for key, item in value.items()}
    return value


def _bytes_of(tensor: torch.Tensor) -> bytes:
    values = tensor.detach().cpu().contiguous()
    return ctypes.string_at(values.data_ptr(), values.numel() * values.element_size())
