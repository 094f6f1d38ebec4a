"""Gradients on their way from a GPU: through pinned memory, while backward() goes on."""
from __future__ import annotations

from collections.abc import Iterator

import torch

from capstan.torch.parameters import Parameter


class Staging:
    """One pinned tensor for each parameter on a GPU; nothing where there are none.

    Copies are queued behind what computes the gradient, on its own stream: the gradient may be let go at once, its
    memory is used again behind the copy. Each has an event of its own, so that the first may leave the process while
    the last are still computed.
    """

    def __init__(self, parameters: list[Parameter]) -> None:
        self._pinned = {entry.name: torch.empty(entry.parameter.shape, dtype=torch.float32, device="cpu",
                                                pin_memory=True)
                        for entry in parameters if entry.parameter.is_cuda}
        self._under_way: dict[str, tuple[Parameter, torch.cuda.Event]] = {}  # in the order of their copies

    def wants(self, entry: Parameter) -> bool:
        return entry.name in self._pinned

    def has(self, entry: Parameter) -> bool:
        """A gradient of it is under way; another one has to wait for it."""
        return entry.name in self._under_way

    def start(self, entry: Parameter, gradient: torch.Tensor) -> None:
        self._pinned[entry.name].copy_(gradient, non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(gradient.device))  # type: ignore[no-untyped-call]
        self._under_way[entry.name] = entry, event

    def arrived(self, *, wait: bool) -> Iterator[tuple[Parameter, torch.Tensor]]:
        """In the order in which they started, those that are there, or all. Each has to be read before the next."""
        while self._under_way:
            entry, event = next(iter(self._under_way.values()))
            if wait:
                event.synchronize()  # type: ignore[no-untyped-call]
            elif not event.query():  # type: ignore[no-untyped-call]
                return
            del self._under_way[entry.name]
            yield entry, self._pinned[entry.name]
