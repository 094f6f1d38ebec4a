"""The tensors of a job: their declarations, and views of the client's memory."""
from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from capstan.arrays import copy_floats
from capstan.errors import Invalid

INITIALS = ("zeros", "ones", "normal", "uniform", "given")
ELEMENT_BYTES = 4  # float32


@dataclass(frozen=True)
class Tensor:
    """One tensor of float32. Its first weights follow from the job's seed and its name, or are passed to declare()."""

    name: str
    shape: Sequence[int]
    initial: str = "zeros"  # or "ones", "normal" (scale: standard deviation), "uniform" (in [-scale, scale)), "given"
    scale: float = 0.0
    weight_decay: bool = True  # False: the optimizer's weight_decay does not apply to it
    group: int = 0  # 0: the job file has its hyper-parameters; else the group's number, from 1, in set_hyper_parameters
    # Whether the tensor is observed and not trained, such as batch-norm's running mean. A slot's gradient of it is the
    # mean that the slot observed over its samples, without the loss scale. A step moves the stored value by a tenth of
    # its distance to the mean over all samples.
    statistic: bool = False

    def __post_init__(self) -> None:
        if self.initial not in INITIALS:
            raise Invalid(f'tensor "{self.name}": initial is "{self.initial}"; one of {", ".join(INITIALS)}')
        if min(self.shape, default=1) < 1:
            raise Invalid(f'tensor "{self.name}": an extent of its shape {tuple(self.shape)} is below 1; leave out a '
                          "tensor that has no elements")

    @property
    def element_count(self) -> int:
        return math.prod(self.shape)


class Tensors(Mapping[str, "memoryview[float]"]):
    """Views by name of the client's memory: numpy.asarray(tensors["w"]) copies nothing, and gradient["w"] = array
    copies once.

    A view keeps the client's memory alive, even when the client has left.
    """

    def __init__(self, tensors: Sequence[Tensor], address: int, owner: object, *, writable: bool) -> None:
        self.address = address
        self._places = {}
        end = 0
        for tensor in tensors:
            begin, end = end, end + tensor.element_count * ELEMENT_BYTES
            self._places[tensor.name] = (begin, end, tuple(tensor.shape))
        memory = (ctypes.c_char * end).from_address(address)
        memory.owner = owner  # type: ignore[attr-defined]
        view = memoryview(memory).cast("B")
        self._bytes = view if writable else view.toreadonly()

    @property
    def flat(self) -> memoryview[float]:
        """All tensors in the declared order, without gaps."""
        return self._bytes.cast("f")

    def __getitem__(self, name: str) -> memoryview[float]:
        begin, end, shape = self._places[name]
        return self._bytes[begin:end].cast("f", shape)

    def __setitem__(self, name: str, values: Any) -> None:
        """Copies `values` there: float32 of the tensor's shape, in a buffer such as a numpy array, or in a CPU tensor
        of any framework with `__dlpack__`."""
        if name not in self._places:
            raise Invalid(f'"{name}" is no tensor that was declared')
        if self._bytes.readonly:
            raise Invalid(f'"{name}" is what the servers sent, and read-only: copy it to change it; gradients go into '
                          "what Slot.begin() returns")
        copy_floats(f'the values given for "{name}"', values, self[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)
