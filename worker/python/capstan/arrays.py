"""Reads a caller's array through the buffer protocol (numpy, array, memoryview) or DLPack (torch, jax, cupy).

It accepts contiguous float32 in memory that the CPU can read, and refuses everything else by name. It needs neither
numpy nor a framework.
"""
from __future__ import annotations

import ctypes
import math
import operator
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, c_char, c_char_p, c_int32, c_int64, c_uint8, c_uint16, c_uint64, c_void_p, py_object
from typing import Any

from capstan.errors import Invalid, Unsupported

_FRESH, _USED = b"dltensor", b"used_dltensor"  # names of a capsule before and after its tensor is taken over
_READABLE = 1, 3  # CPU memory, and pinned CPU memory
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA managed", 14: "oneAPI"}
_TYPES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_FLOAT32 = 2, 32, 1
# Torch may apply these operations only when a tensor is read, so its memory has other values. Not every version of
# torch refuses to export such tensors.
_LAZY = ("neg", "conj")
_NATIVE = "@=" + ("<" if sys.byteorder == "little" else ">")  # prefixes that a buffer's format may have


class _Tensor(ctypes.Structure):
    """DLManagedTensor of dlpack.h, the unversioned form that every producer supports."""

    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("dimensions", c_int32),
                ("type", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64), ("context", c_void_p), ("deleter", c_void_p)]


# Our own prototypes, because attributes of ctypes.pythonapi are shared with other code. A PYFUNCTYPE call holds the
# interpreter's lock.
_pointer_of = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_is_capsule = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
_Deleter = ctypes.PYFUNCTYPE(None, c_void_p)


def copy_floats(what: str, values: Any, into: memoryview[float]) -> None:
    """Copies `values`, float32 in the shape of `into`. `what` names them in errors."""
    with _opened(what, values) as (form, shape, contiguous, memory):
        if form != "f" or shape != into.shape or not contiguous:
            how = "" if contiguous else ", not contiguous"
            raise Invalid(f'{what} are of format "{form}" and shape {shape}{how}; a '
                          f"contiguous buffer of float32 and shape {into.shape} is wanted")
        into.cast("B")[:] = memory.cast("B")


@contextmanager
def _opened(what: str, values: Any) -> Iterator[tuple[str, tuple[int, ...], bool, memoryview[Any]]]:
    """Yields format ("f" is float32, as in the buffer protocol), shape, whether it is contiguous, and the memory."""
    _check_memory_is_the_values(what, values)
    try:
        view = memoryview(values)
    except (TypeError, BufferError, ValueError, RuntimeError):  # a jax array is a buffer only on the CPU
        view = None
    if view is not None:
        form = view.format.lstrip(_NATIVE)
        # memoryview can cast only a format without a byte-order prefix. jax's format has one, so its bytes are copied.
        yield form, view.shape or (), view.c_contiguous, view if form == view.format else memoryview(view.tobytes())
        return
    tensor, capsule = _exported(what, values)
    try:
        kind, shape = (tensor.type, tensor.bits, tensor.lanes), tuple(tensor.shape[:tensor.dimensions])
        form = "f" if kind == _FLOAT32 else f"{_TYPES.get(tensor.type, 'other')}{tensor.bits}"
        contiguous = _is_contiguous(shape, tensor)
        readable = kind == _FLOAT32 and contiguous
        memory = (c_char * (4 * math.prod(shape) if readable else 0)).from_address(
            (tensor.data or 0) + tensor.byte_offset)
        yield form, shape, contiguous, memoryview(memory)
    finally:
        if tensor.deleter:
            _Deleter(tensor.deleter)(ctypes.addressof(tensor))
        del capsule  # its name now says that it has nothing to free


def _check_memory_is_the_values(what: str, values: Any) -> None:
    masked = sys.modules.get("numpy.ma")  # a program with a masked array has imported it
    if masked is not None and isinstance(values, masked.MaskedArray):
        raise Invalid(f"{what} are a masked array, and what it masks would be read with the rest; use filled()")
    for operation in _LAZY:
        is_marked = getattr(values, f"is_{operation}", None)
        if callable(is_marked) and is_marked() is True:
            raise Invalid(f"{what} are a {type(values).__name__} with is_{operation}(), whose memory has other values; "
                          f"call resolve_{operation}()")


def _exported(what: str, values: Any) -> tuple[_Tensor, object]:
    """Returns the tensor, which the caller must free, and the capsule that keeps it alive."""
    if not hasattr(values, "__dlpack__") or not hasattr(values, "__dlpack_device__"):
        raise Invalid(f"{what} are a {type(values).__name__}, which is no buffer and has no __dlpack__(); give a numpy "
                      "array or another framework's tensor")
    try:
        device, number = map(operator.index, values.__dlpack_device__())
        capsule = values.__dlpack__() if device in _READABLE else None
    # The framework's own exception: torch raises one for a tensor that requires a gradient, or is on device "meta".
    except Exception as error:
        raise Invalid(f"{what} are a {type(values).__name__} that cannot be read ({type(error).__name__}: {error}); "
                      "give a tensor that DLPack describes, on the CPU, or a numpy array") from error
    if device not in _READABLE:
        raise Unsupported(f"{what} are on device {number} of type {device} ({_DEVICES.get(device, 'see dlpack.h')}); "
                          "copy them to the CPU first, as with tensor.cpu(), jax.device_get(array) or cupy's "
                          "array.get()")
    if not _is_capsule(capsule, _FRESH):
        raise Invalid(f"{what} are a {type(values).__name__} whose __dlpack__() gave {capsule!r:.100}, and a capsule "
                      f'"{_FRESH.decode()}" that nobody has used is wanted; give a numpy array')
    tensor = _Tensor.from_address(_pointer_of(capsule, _FRESH))
    _rename(capsule, _USED)
    return tensor, capsule


def _is_contiguous(shape: tuple[int, ...], tensor: _Tensor) -> bool:
    if not tensor.strides:
        return True
    wanted = 1
    for size, stride in zip(reversed(shape), reversed(tensor.strides[:tensor.dimensions])):
        if size > 1 and stride != wanted:
            return False
        wanted *= size
    return True
