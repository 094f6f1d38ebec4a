"""Collective operations on tensors. All processes call them in the same order.

A call runs when it is made; those that end with _async return a handle whose result is there already.
"""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from capstan.collectives import BYTES_MAX
from capstan.errors import Invalid
from capstan.horovod.compression import Compression, Compressor
from capstan.horovod.process import internal_errors, process, rank, size


class ReduceOp:
    """How values are reduced; one of Average, Sum, Min, Max, Product."""

    def __init__(self, name: str, word: str) -> None:
        self.name, self.word = name, word

    def __repr__(self) -> str:
        return f"hvd.{self.name}"


Average = ReduceOp("Average", "mean")
Sum = ReduceOp("Sum", "sum")
Adasum = ReduceOp("Adasum", "")
Min = ReduceOp("Min", "min")
Max = ReduceOp("Max", "max")
Product = ReduceOp("Product", "product")


class _GlobalProcessSet:
    """All processes."""

    process_set_id = 0


global_process_set = _GlobalProcessSet()


class Handle:
    """The result of an operation."""

    def __init__(self, result: Any) -> None:
        self.result = result


def op_of(op: ReduceOp | None, average: bool | None = None) -> ReduceOp:
    """The operation that a call means: Average unless it says another one."""
    if op is not None and average is not None:
        raise ValueError("The op parameter supersedes average. Please provide only one of them.")
    chosen = op if op is not None else Average if average is not False else Sum
    if chosen is Adasum:
        raise Invalid("op=hvd.Adasum is not offered: take op=hvd.Average, or hvd.Sum")
    return chosen


def reduce_flat(flat: torch.Tensor, op: ReduceOp) -> None:
    """Reduces a contiguous tensor in place, in calls of at most 64 MiB."""
    if process.client is None:
        return  # one process
    numbers = BYTES_MAX // flat.element_size()
    with internal_errors():
        for part in flat.reshape(-1).split(numbers):
            process.client.all_reduce(part, op.word)


def _all_of_them(process_set: object) -> None:
    if process_set is not None and process_set is not global_process_set:
        raise Invalid("a process_set of some processes is not offered: collective calls are of all processes")


def _must_be_plain(what: str, tensor: torch.Tensor) -> None:
    if tensor.requires_grad and torch.is_grad_enabled():
        raise Invalid(f"hvd.{what} of a tensor that requires a gradient: no gradient flows through it; give "
                      "tensor.detach(), or call it within torch.no_grad()")
    if tensor.is_sparse:
        raise Invalid(f"hvd.{what} of a sparse tensor: give tensor.to_dense()")


def _reduced(tensors: Sequence[torch.Tensor], op: ReduceOp, compression: type[Compressor], prescale: float,
             postscale: float, process_set: object, what: str) -> list[torch.Tensor]:
    """New tensors with the reduced values. Those of one type travel together."""
    process.here  # raises unless init() was called
    _all_of_them(process_set)
    sent: list[tuple[torch.Tensor, Any]] = []
    for tensor in tensors:
        _must_be_plain(what, tensor)
        scaled = tensor.detach() if prescale == 1.0 else torch.mul(tensor.detach(), prescale)
        sent.append(compression.compress(scaled))
    results: list[torch.Tensor | None] = [None] * len(tensors)
    for kind in dict.fromkeys(value.dtype for value, _ in sent):
        places = [index for index, (value, _) in enumerate(sent) if value.dtype == kind]
        flat = torch.cat([sent[index][0].reshape(-1) for index in places])
        reduce_flat(flat, op)
        for index, part in zip(places, torch.split_with_sizes(flat, [sent[index][0].numel() for index in places])):
            value, context = sent[index]
            result = compression.decompress(part.reshape(value.shape), context)
            results[index] = torch.mul(result, postscale) if postscale != 1.0 else result.clone()
    return [result for result in results if result is not None]


def allreduce(tensor: torch.Tensor, average: bool | None = None, name: str | None = None,
              compression: type[Compressor] = Compression.none, op: ReduceOp | None = None, prescale_factor: float = 1.0,
              postscale_factor: float = 1.0, process_set: object = None) -> torch.Tensor:
    """Returns the reduced values in a new tensor."""
    return _reduced([tensor], op_of(op, average), compression, prescale_factor, postscale_factor, process_set,
                    "allreduce")[0]


def allreduce_(tensor: torch.Tensor, average: bool | None = None, name: str | None = None, op: ReduceOp | None = None,
               prescale_factor: float = 1.0, postscale_factor: float = 1.0, process_set: object = None) -> torch.Tensor:
    """Replaces the tensor by the reduced values."""
    return grouped_allreduce_([tensor], average, name, op, prescale_factor, postscale_factor, process_set)[0]


def grouped_allreduce(tensors: Sequence[torch.Tensor], average: bool | None = None, name: str | None = None,
                      compression: type[Compressor] = Compression.none, op: ReduceOp | None = None,
                      prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                      process_set: object = None) -> list[torch.Tensor]:
    """Reduces several tensors in as few calls as possible."""
    return _reduced(tensors, op_of(op, average), compression, prescale_factor, postscale_factor, process_set,
                    "grouped_allreduce")


def grouped_allreduce_(tensors: Sequence[torch.Tensor], average: bool | None = None, name: str | None = None,
                       op: ReduceOp | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0,
                       process_set: object = None) -> list[torch.Tensor]:
    with torch.no_grad():
        results = _reduced(tensors, op_of(op, average), Compression.none, prescale_factor, postscale_factor, process_set,
                           "allreduce_")
        for tensor, result in zip(tensors, results):
            tensor.copy_(result)
    return list(tensors)


def allreduce_async(*given: Any, **named: Any) -> Handle:
    return Handle(allreduce(*given, **named))


def allreduce_async_(*given: Any, **named: Any) -> Handle:
    return Handle(allreduce_(*given, **named))


def grouped_allreduce_async(*given: Any, **named: Any) -> Handle:
    return Handle(grouped_allreduce(*given, **named))


def grouped_allreduce_async_(*given: Any, **named: Any) -> Handle:
    return Handle(grouped_allreduce_(*given, **named))


def allgather(tensor: torch.Tensor, name: str | None = None, process_set: object = None) -> torch.Tensor:
    """Returns the tensors of all processes, one after the other along the first dimension, in which they may differ."""
    process.here
    _all_of_them(process_set)
    _must_be_plain("allgather", tensor)
    if tensor.dim() == 0:
        raise Invalid("hvd.allgather of a tensor without dimensions: give tensor.reshape(1)")
    if process.client is None:
        return torch.clone(tensor.detach())
    with internal_errors():
        parts = process.client.all_gather(tensor.detach().contiguous())
    for other, part in enumerate(parts):
        if part.shape[1:] != tensor.shape[1:]:
            raise Invalid(f"hvd.allgather: rank {other} gives shape {tuple(part.shape)}, and rank {rank()} "
                          f"{tuple(tensor.shape)}; they may differ in the first dimension only")
    return torch.cat(parts)


def allgather_async(*given: Any, **named: Any) -> Handle:
    return Handle(allgather(*given, **named))


def grouped_allgather(tensors: Sequence[torch.Tensor], name: str | None = None,
                      process_set: object = None) -> list[torch.Tensor]:
    return [allgather(tensor, name, process_set) for tensor in tensors]


def broadcast_(tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: object = None) -> torch.Tensor:
    """Replaces the tensor by the root's."""
    process.here
    _all_of_them(process_set)
    if not 0 <= root_rank < size():
        raise Invalid(f"hvd.broadcast from rank {root_rank}: there are ranks 0 to {size() - 1}")
    if process.client is None or not tensor.numel():
        return tensor
    with torch.no_grad(), internal_errors():
        if tensor.dtype in (torch.bool, torch.int8, torch.int16):  # they travel as bytes
            flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        else:
            flat = tensor.detach().contiguous().reshape(-1)
        for part in flat.split(BYTES_MAX // flat.element_size()):
            process.client.broadcast(part, root_rank)
        tensor.copy_(flat.view(tensor.dtype).reshape(tensor.shape))
    return tensor


def broadcast(tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: object = None) -> torch.Tensor:
    _must_be_plain("broadcast", tensor)
    return broadcast_(tensor.detach().clone(), root_rank, name, process_set)


def broadcast_async(*given: Any, **named: Any) -> Handle:
    return Handle(broadcast(*given, **named))


def broadcast_async_(*given: Any, **named: Any) -> Handle:
    return Handle(broadcast_(*given, **named))


def alltoall(tensor: torch.Tensor, splits: torch.Tensor | Sequence[int] | None = None, name: str | None = None,
             process_set: object = None) -> Any:
    """Sends each process its part of the first dimension. Returns what came from all, by rank; with `splits` also how
    many rows came from each."""
    rows = tensor.shape[0]
    if splits is None and rows % size():
        raise ValueError(f"hvd.alltoall of {rows} rows among {size()} processes: give splits")
    counts = [rows // size()] * size() if splits is None else [int(count) for count in splits]
    if len(counts) != size() or sum(counts) != rows:
        raise ValueError(f"hvd.alltoall: splits {counts} are to be {size()} numbers whose sum is {rows}")
    table = allgather(torch.tensor([counts], dtype=torch.int64), process_set=process_set)
    whole = allgather(tensor, process_set=process_set)
    parts, begin = [], 0
    for sender in table.tolist():
        first = begin + sum(sender[:rank()])
        parts.append(whole[first:first + sender[rank()]])
        begin += sum(sender)
    received = torch.cat(parts)
    return received if splits is None else (received, table[:, rank()].to(torch.int32))


def reducescatter(tensor: torch.Tensor, op: ReduceOp | None = None, compression: type[Compressor] = Compression.none,
                  name: str | None = None, process_set: object = None, prescale_factor: float = 1.0,
                  postscale_factor: float = 1.0) -> torch.Tensor:
    """Returns this process's rows of the reduced values. The first processes get one row more where they are not even."""
    whole = allreduce(tensor, compression=compression, op=op_of(op), process_set=process_set,
                      prescale_factor=prescale_factor, postscale_factor=postscale_factor)
    share, more = divmod(tensor.shape[0], size())
    begin = rank() * share + min(rank(), more)
    return torch.clone(whole[begin:begin + share + (rank() < more)])


def barrier(process_set: object = None) -> None:
    """Waits for all processes."""
    process.here
    _all_of_them(process_set)
    if process.client is not None:
        with internal_errors():
            process.client.all_gather(b"")


def poll(handle: Handle) -> bool:
    """Whether the result is there: it always is."""
    return isinstance(handle, Handle)


def synchronize(handle: Handle) -> Any:
    return handle.result


def join(device: int = -1) -> int:
    """Refused: each process has to know how many calls it makes."""
    raise Invalid("hvd.join() is not offered, for processes with different numbers of batches: give all the same number, "
                  "with DistributedSampler, which pads, or DataLoader(drop_last=True)")
