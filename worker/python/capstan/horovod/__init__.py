"""Horovod's interface for PyTorch on capstan: `import capstan.horovod as hvd` in place of `import horovod.torch as hvd`.

Gradients meet at the job's coordinator, and the script runs its own optimizer. The job file has [model] kind = "client"
and [job] steps = 1; `capstan launch job.toml -- python3 train.py` takes the place of horovodrun. Values are added in the
order of the ranks, so the bits of a result do not depend on timing.
"""
from typing import Any

import capstan.horovod.elastic as elastic
from capstan.errors import Invalid
from capstan.horovod.compression import Compression
from capstan.horovod.exceptions import HorovodInternalError, HostsUpdatedInterrupt
from capstan.horovod.functions import (allgather_object, broadcast_object, broadcast_optimizer_state,
                                       broadcast_parameters)
from capstan.horovod.operations import (Adasum, Average, Max, Min, Product, ReduceOp, Sum, allgather, allgather_async,
                                        allreduce, allreduce_, allreduce_async, allreduce_async_, alltoall, barrier,
                                        broadcast, broadcast_, broadcast_async, broadcast_async_, global_process_set,
                                        grouped_allgather, grouped_allreduce, grouped_allreduce_,
                                        grouped_allreduce_async, grouped_allreduce_async_, join, poll, reducescatter,
                                        synchronize)
from capstan.horovod.optimizer import DistributedOptimizer
from capstan.horovod.process import (cross_rank, cross_size, init, is_homogeneous, is_initialized, local_rank,
                                     local_size, rank, shutdown, size)

__all__ = ["Adasum", "Average", "Compression", "DistributedOptimizer", "HorovodInternalError", "HostsUpdatedInterrupt",
           "Max", "Min", "Product", "ReduceOp", "Sum", "allgather", "allgather_async", "allgather_object", "allreduce",
           "allreduce_", "allreduce_async", "allreduce_async_", "alltoall", "barrier", "broadcast", "broadcast_",
           "broadcast_async", "broadcast_async_", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters",
           "cross_rank", "cross_size", "elastic", "global_process_set", "grouped_allgather", "grouped_allreduce",
           "grouped_allreduce_", "grouped_allreduce_async", "grouped_allreduce_async_", "init", "is_homogeneous",
           "is_initialized", "join", "local_rank", "local_size", "poll", "rank", "reducescatter", "shutdown", "size",
           "synchronize"]

# What Horovod has besides, and the line to write instead.
_INSTEAD = {
    "ProcessSet": "collective calls are of all processes", "add_process_set": "collective calls are of all processes",
    "remove_process_set": "collective calls are of all processes",
    "sparse_allreduce_async": "give allreduce(tensor.to_dense())",
    "SyncBatchNorm": "normalise by a process's own samples, torch.nn.BatchNorm2d",
    "start_timeline": "start the job with capstan launch --trace FILE", "stop_timeline": "the trace ends with the job",
    "alltoall_async": "call alltoall(tensor, splits)", "reducescatter_async": "call reducescatter(tensor)",
    "grouped_reducescatter": "call reducescatter(tensor) for each", "grouped_allgather_async": "call grouped_allgather()",
}
# Questions about how Horovod was built.
_NOT_BUILT = ("mpi_threads_supported", "mpi_enabled", "mpi_built", "gloo_enabled", "gloo_built", "nccl_built", "ddl_built",
              "ccl_built", "cuda_built", "rocm_built")


def __getattr__(name: str) -> Any:
    if name in _NOT_BUILT:
        return lambda: False
    if name in _INSTEAD:
        raise Invalid(f"hvd.{name} is not offered: {_INSTEAD[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
