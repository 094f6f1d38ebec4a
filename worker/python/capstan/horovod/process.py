"""This process's place among the job's processes: init(), shutdown(), rank(), size() and their like.

Horovod's interface belongs to the process and not to an object, so this module has the one object behind it.
"""
from __future__ import annotations

import atexit
import contextlib
import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from capstan.client import Client, connect
from capstan.collectives import Team
from capstan.errors import Error, Invalid, Stale, Unreachable
from capstan.horovod.exceptions import HorovodInternalError
from capstan.tensors import Tensor


@dataclass(frozen=True)
class _Place:
    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int


class _Process:
    def __init__(self) -> None:
        self.client: Client | None = None  # None: one process without a job
        self.place: _Place | None = None  # None: not initialized
        self._registered = False

    def init(self) -> None:
        if self.place is not None:
            return
        if os.environ.get("CAPSTAN_BROKER"):
            raise Invalid("capstan run makes a job of what a script gives capstan.torch's prepare(), which a script for Horovod does "
                          "not call: start it by capstan launch job.toml -- python3 train.py")
        if not os.environ.get("CAPSTAN_COORDINATOR"):
            print("capstan.horovod: CAPSTAN_COORDINATOR is not set, so this process trains alone; start several with "
                  "capstan launch job.toml --set cluster.workers=2 -- python3 train.py", file=sys.stderr)
            self.place = _Place(0, 1, 0, 1, 0, 1)
            return
        if self.client is None:
            client = connect()
            _check_job(client)
            client.declare([Tensor("capstan.horovod", (1,))])
            self.client = client
        if not self._registered:
            self._registered = True
            atexit.register(_at_exit, os.getpid())
        self.form_team()

    def form_team(self) -> None:
        """Forms a team of all present processes; a call waits until there are as many as the job file says."""
        assert self.client is not None
        self.place = None
        try:
            team = self.client.form_team()
        except Stale:  # the others have ended the job
            print("capstan.horovod: the job is done, and this process came too late to take part", file=sys.stderr)
            raise SystemExit(0) from None
        with internal_errors():
            hosts = self.client.all_gather_object(socket.gethostname())
        self.place = _place_in(team, hosts)

    def shutdown(self) -> None:
        """All processes call it, or end: then the job is done."""
        if self.place is None:
            return
        self.place = None
        if self.client is None:
            return
        client, self.client = self.client, None
        try:
            client.all_gather(b"")  # nobody ends the job while another one still computes
            for work in client.work():
                for slot in work.slots:
                    slot.skip()
        finally:
            with contextlib.suppress(Error):
                client.leave("hvd.shutdown()")

    def leave(self, reason: str) -> None:
        self.place = None
        if self.client is not None:
            client, self.client = self.client, None
            with contextlib.suppress(Error):
                client.leave(reason)

    @property
    def here(self) -> _Place:
        if self.place is None:
            raise ValueError("Horovod has not been initialized; use hvd.init().")
        return self.place


process = _Process()


def _check_job(client: Client) -> None:
    job = client.job
    if job["model"]["kind"] != "client" or job["job"]["steps"] != 1:
        raise Invalid(f'capstan.horovod needs a job whose file has [model] kind = "client" and [job] steps = 1: the script '
                      f'has the model and decides when training ends. It has kind = "{job["model"]["kind"]}" and steps = '
                      f'{job["job"]["steps"]}')


def _place_in(team: Team, hosts: list[str]) -> _Place:
    own = hosts[team.rank]
    local_rank = hosts[:team.rank].count(own)
    machines = list(dict.fromkeys(hosts))  # in the order of their first ranks
    alike = [machine for machine in machines if hosts.count(machine) > local_rank]
    return _Place(team.rank, team.ranks, local_rank, hosts.count(own), alike.index(own), len(alike))


@contextlib.contextmanager
def internal_errors() -> Iterator[None]:
    """Turns the loss of a process into the exception that elastic scripts know."""
    try:
        yield
    except (Stale, Unreachable) as error:
        raise HorovodInternalError(str(error)) from error


def _at_exit(owner: int) -> None:
    """Ends the job with the script, as Horovod does. A script that an exception ended leaves it."""
    if owner != os.getpid():
        return
    error = getattr(sys, "last_type", None)
    if error is not None:
        return process.leave(f"{error.__name__} ended it")
    with contextlib.suppress(Error):
        process.shutdown()


def init(comm: object = None, process_sets: object = None) -> None:
    """Joins the job that CAPSTAN_COORDINATOR names, and waits for its other processes. Without that variable the process
    is alone."""
    if comm is not None or process_sets is not None:
        raise Invalid("hvd.init() with ranks, a communicator or process sets: capstan has one team of all processes; call "
                      "hvd.init()")
    process.init()


def shutdown() -> None:
    """Ends this process's part; the job is done when all processes have called it. It is called at exit."""
    process.shutdown()


def is_initialized() -> bool:
    return process.place is not None


def rank() -> int:
    return process.here.rank


def size() -> int:
    return process.here.size


def local_rank() -> int:
    """Counts the processes on this machine."""
    return process.here.local_rank


def local_size() -> int:
    return process.here.local_size


def cross_rank() -> int:
    """Counts the machines that have a process of this local rank."""
    return process.here.cross_rank


def cross_size() -> int:
    return process.here.cross_size


def is_homogeneous() -> bool:
    """Whether every machine has equally many processes."""
    from capstan.horovod.functions import allgather_object
    return len(set(allgather_object(local_size()))) == 1
