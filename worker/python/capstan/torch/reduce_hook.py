"""A communication hook for DistributedDataParallel: gradients are reduced at the job's coordinator."""
from __future__ import annotations

from typing import Any

import torch

from capstan.collectives import BYTES_MAX, Collectives
from capstan.errors import Invalid


def reduce_hook(state: Collectives, bucket: Any) -> Any:
    """model.register_comm_hook(client, capstan.torch.reduce_hook), where `client` is a capstan client in a job.

    Returns a future with the mean of the bucket's gradients over the team, which is that of DDP's own reduction: the sum
    in the order of the ranks, divided by their number. The processes of the team have to be those of DDP's group, with
    the same ranks. Buckets come in the same order in all processes, as DDP sees to.
    """
    client = getattr(state, "client", state)  # a Trainer has one
    if not isinstance(client, Collectives):
        raise Invalid(f"register_comm_hook(state, capstan.torch.reduce_hook) with a {type(state).__name__}: give a capstan "
                      "client, capstan.connect(...), after its declare()")
    flat = bucket.buffer()
    for part in flat.split(BYTES_MAX // flat.element_size()):
        client.all_reduce(part, "mean")
    future: Any = torch.futures.Future()
    future.set_result(flat)
    return future


reduce_hook.__annotations__.clear()  # DDP compares them with classes that a build without torch.distributed lacks
