"""This process's number among the job's processes, as the script or its launcher gives it."""
from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from capstan.errors import Invalid


@dataclass(frozen=True)
class _Launcher:
    """The variables with which a launcher numbers its processes."""

    name: str
    rank: str
    ranks: str
    local_rank: str
    sign: str  # a variable that is there only in the launcher's own processes


# The first one whose variables are there counts: torchrun may itself be started by srun.
_LAUNCHERS = (
    _Launcher("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "RANK"),
    _Launcher("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_RANK"),
    _Launcher("PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "PMI_RANK"),
    # A batch script has SLURM_PROCID too; only what srun starts is a step.
    _Launcher("srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_ID"),
)


@dataclass(frozen=True)
class Identity:
    """A process that is started as a replacement has the same number. Without a number, a process is identified by its
    slots. A process with `binds` computes the slot of its number, and no other process does."""

    rank: int | None = None
    ranks: int = 0
    local_rank: int | None = None  # among the processes of its machine
    binds: bool = False
    notice: str = ""  # what was taken from where

    @classmethod
    def given(cls, rank: int | None, ranks: int, variables: Mapping[str, str] = os.environ) -> Identity:
        """By the arguments of connect(), or else by capstan launch, torchrun, mpirun or srun."""
        if rank is not None:
            return cls(rank, ranks, _number(variables, "LOCAL_RANK"), True)
        if (place := cls.of_launch(variables)) is not None:
            return cls(*place, place[0])  # it starts all copies on its own machine
        for launcher in _LAUNCHERS:
            if launcher.sign in variables and (launcher.rank in variables or launcher.ranks in variables):
                return cls._of(launcher, variables)
        return cls(local_rank=_number(variables, "LOCAL_RANK"))

    @staticmethod
    def of_launch(variables: Mapping[str, str] = os.environ) -> tuple[int, int] | None:
        """The number that capstan launch gives this process, and how many there are."""
        if "CAPSTAN_INDEX" not in variables or "CAPSTAN_INDEXES" not in variables:
            return None
        return _place(variables, "CAPSTAN_INDEX", "CAPSTAN_INDEXES", "capstan launch")

    @classmethod
    def _of(cls, launcher: _Launcher, variables: Mapping[str, str]) -> Identity:
        rank, ranks = _place(variables, launcher.rank, launcher.ranks, launcher.name)
        local = _number(variables, launcher.local_rank)
        if ranks == 1:  # perhaps a shell within srun, from which several processes are started by hand
            return cls(local_rank=local)
        return cls(rank, ranks, local, True, f"rank {rank} of {ranks} is taken from {launcher.rank} and {launcher.ranks}, as "
                   f"{launcher.name} sets them: this process computes slot {rank} of each step")

    def rank_with(self, slots: list[int]) -> int:
        """The number of the process that has these slots. -1: it has neither a number nor a slot."""
        return self.rank if self.rank is not None else min(slots, default=-1)

    def place_on_machine(self) -> int:
        if self.local_rank is None:
            raise Invalid("this process has no number on its machine: no launcher gave one (LOCAL_RANK of torchrun, "
                          "OMPI_COMM_WORLD_LOCAL_RANK, MPI_LOCALRANKID, SLURM_LOCALID, CAPSTAN_INDEX); set LOCAL_RANK where you "
                          "start it")
        return self.local_rank


def _number(variables: Mapping[str, str], name: str) -> int | None:
    text = variables.get(name, "")
    return int(text) if text.isdecimal() else None


def _place(variables: Mapping[str, str], index: str, count: str, launcher: str) -> tuple[int, int]:
    given, of = _number(variables, index), _number(variables, count)
    if given is None or of is None or given >= of:
        raise Invalid(f"{index} is {variables.get(index)!r} and {count} is {variables.get(count)!r}: an index is counted from 0 "
                      f"and below their number; unset both, or set them as {launcher} does")
    return given, of
