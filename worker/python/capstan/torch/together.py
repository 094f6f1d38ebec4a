"""The calls that all processes of a job make together, between steps."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capstan.client import Client


class Together:
    """Part of Trainer. Each call waits for all processes, and names those that are missing. After the job's last step the
    processes leave, so the calls come before it."""

    @property
    def client(self) -> Client:
        raise NotImplementedError

    def barrier(self, seconds: float | None = None) -> None:
        """Waits until every worker of the job has called it; see Client.barrier."""
        self.client.barrier(seconds)

    def mean(self, metrics: Mapping[str, tuple[Any, Any]], seconds: float | None = None) -> dict[str, float]:
        """Returns sum / weight over all processes for each name; call it in all of them, between steps. See
        Client.mean."""
        return self.client.mean(metrics, seconds=seconds)

    def all_reduce(self, values: Any, op: str = "sum", seconds: float | None = None) -> Any:
        """Reduces a tensor or an array over all processes, in place; see Client.all_reduce."""
        return self.client.all_reduce(values, op, seconds=seconds)

    def broadcast(self, values: Any, root: int = 0, seconds: float | None = None) -> Any:
        """Replaces a tensor or an array by that of process `root`; see Client.broadcast."""
        return self.client.broadcast(values, root, seconds=seconds)

    def all_gather(self, values: Any, seconds: float | None = None) -> list[Any]:
        """Returns each process's tensor or array; see Client.all_gather."""
        return self.client.all_gather(values, seconds=seconds)

    def broadcast_object(self, value: Any = None, root: int = 0, seconds: float | None = None) -> Any:
        """Returns the object of process `root`, which travels as a pickle; see Client.broadcast_object."""
        return self.client.broadcast_object(value, root, seconds=seconds)
