"""capstan's client for Python: take part in a job as a worker, with numpy or any framework.

    with capstan.connect("10.0.0.5:29600") as client:
        client.declare([capstan.Tensor("w", (64, 10)), capstan.Tensor("b", (10,))])
        for work in client.work():
            for slot in work.slots:
                x, y = batch(slot.key)  # a function of only (seed, step, slot)
                gradient = slot.begin(samples=len(x))
                ... read work.weights["w"], then gradient["w"] = ... and gradient["b"] = ..., arrays of float32 ...
                slot.end(loss_sum, predictions=len(x))

Or follow a job without taking part in it:

    for version in capstan.follow("10.0.0.5:29600"):
        print(version.step, accuracy(version.weights["w"]), version.done)
"""
from capstan import abi
from capstan.client import Client, Slot, Work, connect
from capstan.collectives import Collectives, Team
from capstan.errors import (Busy, Corrupt, Error, Invalid, Refused, Rewound, Stale, Timeout, Unreachable, Unsupported)
from capstan.hyper_parameters import HyperParameters
from capstan.reader import Progress, Reader, Version, follow
from capstan.tensors import Tensor, Tensors

__all__ = ["Busy", "Client", "Collectives", "Corrupt", "Error", "HyperParameters", "Invalid", "Progress", "Reader", "Refused",
           "Rewound", "Slot", "Stale", "Team", "Tensor", "Tensors", "Timeout", "Unreachable", "Unsupported", "Version", "Work",
           "connect", "follow"]

__version__: str


def __getattr__(name: str) -> str:
    if name == "__version__":  # the version of the library, which is installed with this package
        return str(abi.load().capstan_version().decode())
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
