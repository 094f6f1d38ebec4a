"""Reads an array of the caller's: by the buffer protocol (numpy, array, memoryview) or by DLPack (torch, jax, cupy).

It takes contiguous float32 in memory that the CPU reads, and refuses everything else by name; neither numpy nor a
framework is needed for that.
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

_FRESH, _USED = b"dltensor", b"used_dltensor"  # names of the capsule: whose the tensor is
_READABLE = 1, 3  # the CPU's memory, and what of it a GPU can read as well
_DEVICES = {2: "CUDA", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm", 13: "CUDA managed", 14: "oneAPI"}
_TYPES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}
_FLOAT32 = 2, 32, 1
_LAZY = ("neg", "conj")  # operations of torch that memory may still wait for, whose mark not every torch exports
_NATIVE = "@=" + ("<" if sys.byteorder == "little" else ">")  # what a buffer's format may begin with


class _Tensor(ctypes.Structure):
    """DLManagedTensor of dlpack.h, without a version, which every producer has."""

    _fields_ = [("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("dimensions", c_int32),
                ("type", c_uint8), ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("byte_offset", c_uint64), ("context", c_void_p), ("deleter", c_void_p)]


# Prototypes of our own: those that hang on ctypes.pythonapi are everybody's. The interpreter's lock is held.
_pointer_of = ctypes.PYFUNCTYPE(c_void_p, py_object, c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_is_capsule = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, py_object, c_char_p)(("PyCapsule_SetName", ctypes.pythonapi))
_Deleter = ctypes.PYFUNCTYPE(None, c_void_p)


def copy_floats(what: str, values: Any, into: memoryview[float]) -> None:
    """`values` are float32 in the shape of `into`; `what` they are is for the errors."""
    with _opened(what, values) as (form, shape, contiguous, memory):
        if form != "f" or shape != into.shape or not contiguous:
            how = "" if contiguous else ", not contiguous"
            raise Invalid(f'{what} are of format "{form}" and shape {shape}{how}; a '
                          f"contiguous buffer of float32 and shape {into.shape} is wanted")
        into.cast("B")[:] = memory.cast("B")


@contextmanager
def _opened(what: str, values: Any) -> Iterator[tuple[str, tuple[int, ...], bool, memoryview[Any]]]:
    """Format, as the buffer protocol has it for float32; shape; whether it is contiguous; the memory."""
    _check_memory_is_the_values(what, values)
    try:
        view = memoryview(values)
    except (TypeError, BufferError, ValueError, RuntimeError):  # an array of jax is a buffer where it is on the CPU
        view = None
    if view is not None:
        form = view.format.lstrip(_NATIVE)
        # Only what has no prefix can be cast; jax has one.
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
        del capsule  # whose name says from now on that it has nothing to free


def _check_memory_is_the_values(what: str, values: Any) -> None:
    masked = sys.modules.get("numpy.ma")  # whoever has an array of it has imported it
    if masked is not None and isinstance(values, masked.MaskedArray):
        raise Invalid(f"{what} are a masked array, and what it masks would be read with the rest; use filled()")
    for operation in _LAZY:
        is_marked = getattr(values, f"is_{operation}", None)
        if callable(is_marked) and is_marked() is True:
            raise Invalid(f"{what} are a {type(values).__name__} with is_{operation}(), whose memory has other values; "
                          f"call resolve_{operation}()")


def _exported(what: str, values: Any) -> tuple[_Tensor, object]:
    """It is ours to free, and lives as long as the capsule."""
    if not hasattr(values, "__dlpack__") or not hasattr(values, "__dlpack_device__"):
        raise Invalid(f"{what} are a {type(values).__name__}, which is no buffer and has no __dlpack__(); give a numpy "
                      "array or another framework's tensor")
    try:
        device, number = map(operator.index, values.__dlpack_device__())
        capsule = values.__dlpack__() if device in _READABLE else None
    except Exception as error:  # its maker's: of torch for one that requires a gradient, or is on "meta"
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
