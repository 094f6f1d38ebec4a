"""Numbers of a collective call: a writable buffer (numpy, array, bytearray) or a torch tensor, in the CPU's memory."""
from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from capstan.errors import Invalid

TYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8")  # as capstan_type counts them
_BYTES = (4, 8, 2, 2, 4, 8, 1)
_BY_FORMAT = {"f": 0, "d": 1, "e": 2, "i": 4, "q": 5, "B": 6, "l": 4 if ctypes.sizeof(ctypes.c_long) == 4 else 5}
_NATIVE = "@=" + ("<" if sys.byteorder == "little" else ">")  # prefixes that a buffer's format may have


class Numbers:
    """The memory of an array of numbers."""

    def __init__(self, address: int, type_number: int, shape: tuple[int, ...], owner: object) -> None:
        self.address, self.type_number, self.shape, self._owner = address, type_number, shape, owner

    @property
    def type(self) -> str:
        return TYPES[self.type_number]

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """In bytes."""
        return self.count * _BYTES[self.type_number]

    def copy(self) -> bytes:
        return ctypes.string_at(self.address, self.size) if self.size else b""


def is_tensor(values: object) -> bool:
    torch = sys.modules.get("torch")  # a program with a tensor has imported it
    return torch is not None and isinstance(values, torch.Tensor)


@contextmanager
def opened(what: str, values: Any, writable: bool = True) -> Iterator[Numbers]:
    """Yields the memory of `values`. A tensor on a device is copied to the CPU, and back after the block if it is
    writable. `what` names the call in errors."""
    if is_tensor(values):
        tensor = values.detach()
        host = tensor.cpu()
        kind = str(host.dtype).removeprefix("torch.")
        if kind not in TYPES:
            raise Invalid(f"{what} of a tensor of {host.dtype}; it takes {', '.join(TYPES)}: convert it with .to()")
        if not host.is_contiguous():
            raise Invalid(f"{what} of a tensor that is not contiguous: give tensor.contiguous()")
        yield Numbers(host.data_ptr(), TYPES.index(kind), tuple(host.shape), host)
        if writable and host.data_ptr() != tensor.data_ptr():
            tensor.copy_(host)
        return
    try:
        view = memoryview(values)
    except TypeError:
        raise Invalid(f"{what} of a {type(values).__name__}: give a numpy array, another writable buffer of numbers, or a "
                      "torch tensor") from None
    form = view.format.lstrip(_NATIVE)
    if form not in _BY_FORMAT:
        raise Invalid(f'{what} of a buffer of format "{view.format}"; it takes {", ".join(TYPES)}: convert it, for example '
                      "with numpy.asarray(values, dtype=numpy.float32)")
    if not view.c_contiguous:
        raise Invalid(f"{what} of a buffer that is not contiguous: give numpy.ascontiguousarray(values)")
    if view.readonly and writable:
        raise Invalid(f"{what} writes its result into the buffer, and this {type(values).__name__} is read-only: give a "
                      "copy of it")
    shape = tuple(view.shape or ())
    if not view.nbytes:
        yield Numbers(0, _BY_FORMAT[form], shape, view)
    elif view.readonly:
        copy = ctypes.create_string_buffer(view.tobytes(), view.nbytes)
        yield Numbers(ctypes.addressof(copy), _BY_FORMAT[form], shape, copy)
    else:
        memory = (ctypes.c_char * view.nbytes).from_buffer(view)
        yield Numbers(ctypes.addressof(memory), _BY_FORMAT[form], shape, memory)
