"""The exceptions that Horovod's elastic scripts know."""
from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """A collective call failed, because a process of the team is lost: restore the last commit and form another team."""


class HostsUpdatedInterrupt(RuntimeError):
    """A process waits to take part: the present ones form another team with it."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("a process waits to take part")
        self.skip_sync = skip_sync
