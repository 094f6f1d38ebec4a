"""Copies gradients from a GPU through pinned memory, while backward() continues."""
from __future__ import annotations

from collections.abc import Iterator

import torch

from capstan.torch.parameters import Parameter


class Staging:
    """Has a pinned tensor for each parameter on a GPU.

    Copies are enqueued behind the computation of the gradient, on the same stream. So the gradient can be freed at
    once: its memory is reused only after the copy. Each copy has its own event, so that the first gradients can be sent
    while the last are still computed.
    """

    def __init__(self, parameters: list[Parameter]) -> None:
        self._pinned = {entry.name: torch.empty(entry.parameter.shape, dtype=torch.float32, device="cpu",
                                                pin_memory=True)
                        for entry in parameters if entry.parameter.is_cuda}
        self._under_way: dict[str, tuple[Parameter, torch.cuda.Event]] = {}  # in the order of the copies

    def wants(self, entry: Parameter) -> bool:
        return entry.name in self._pinned

    def has(self, entry: Parameter) -> bool:
        """Whether a gradient of the parameter is in flight; another one must wait for it."""
        return entry.name in self._under_way

    def start(self, entry: Parameter, gradient: torch.Tensor) -> None:
        self._pinned[entry.name].copy_(gradient, non_blocking=True)
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(gradient.device))  # type: ignore[no-untyped-call]
        self._under_way[entry.name] = entry, event

    def arrived(self, *, wait: bool) -> Iterator[tuple[Parameter, torch.Tensor]]:
        """Yields gradients in the order of their copies: those that have arrived, or with `wait` all. Read each one
        before the next."""
        while self._under_way:
            entry, event = next(iter(self._under_way.values()))
            if wait:
                event.synchronize()  # type: ignore[no-untyped-call]
            elif not event.query():  # type: ignore[no-untyped-call]
                return
            del self._under_way[entry.name]
            yield entry, self._pinned[entry.name]
