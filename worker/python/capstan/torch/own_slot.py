"""For a framework whose loop counts its steps by itself: the process computes one slot of each step and no other, so a
step of the loop is a step of the job."""
from __future__ import annotations

from typing import Any

from capstan.errors import Invalid, Rewound
from capstan.place import Identity
from capstan.torch.joining import global_batch_of
from capstan.torch.passes import Batches
from capstan.torch.trainer import Trainer, connect

_SEVERAL = ("{loop} takes one step for each batch, and this process has no number, so it may have several of the job's {slots} slots: "
            "start the script by capstan run or capstan launch, set job.slots = 1, or write {write}")
_OTHER_BATCH = ("the job's global_batch is {now}, and {loop} makes a step of {wanted} samples (batch_size times accumulated batches, in "
                "all processes together): set job.global_batch = {wanted}, or change the batch_size")
_LEFT = ("the loop left epoch {epoch} at step {step}, and the job's epoch ends at step {end}: end the training instead, or give the "
         "loader fewer samples")
_WENT_BACK = "the job went back to step {step}, and {loop} cannot: start the process again, which goes on at that step"


def connect_to_one(coordinator: str | None, identity: Identity, **options: Any) -> Trainer:
    """connect(), after which only this process computes the slot of its number, and the job waits for it when it is lost. A
    process without a number has all slots of the job; see OwnSlot."""
    if identity.rank is None:
        return connect(coordinator, **options)
    return connect(coordinator, rank=identity.rank, ranks=identity.ranks, **options)


class OwnSlot:
    """Where a process is in its job, in the words of a loop over `batches`. `loop`: the framework's name for its loop;
    `write`: the line by which a script gives its process a number; `accumulates`: see Trainer.prepare()."""

    def __init__(self, trainer: Trainer, batches: Batches, *, loop: str, write: str, accumulates: int = 1) -> None:
        job = trainer.client.job["job"]
        slots, now, wanted = int(job["slots"]), int(job["global_batch"]), global_batch_of(batches._loader, accumulates)
        if now != wanted:
            raise Invalid(_OTHER_BATCH.format(now=now, wanted=wanted, loop=loop))
        if not trainer._identity.binds and slots > 1:
            raise Invalid(_SEVERAL.format(loop=loop, slots=slots, write=write))
        self._trainer, self._batches, self._loop = trainer, batches, loop
        self._accumulates = accumulates
        self._generation = -1  # of the job, when the newest batch was handed out
        self._end: int | None = None  # the step at which the newest pass ends
        self.batches_per_epoch = batches.batches_of(trainer.rank if slots > 1 else 0)

    @property
    def step(self) -> int:
        """The job's current step."""
        return self._trainer.global_step

    @property
    def epoch(self) -> int:
        return self.step // self._batches.steps_per_epoch

    @property
    def is_done(self) -> bool:
        return self._trainer.done

    def batch_within(self, epoch: int) -> int:
        """The number of the current batch within this epoch of the loop's. 0 for batches of an earlier epoch, to which the
        job went back."""
        piece = self._trainer._computing.piece
        within = self.step - epoch * self._batches.steps_per_epoch
        return max(0, within * self._accumulates + (piece.index if piece is not None else 0))

    def begin_pass(self, epoch: int) -> None:
        """The loop begins a pass over the batches, which is of this epoch."""
        passes = self._trainer._passes
        assert passes is not None
        self.must_not_have_gone_back()
        if self._end is not None and self.step < self._end:
            raise Invalid(_LEFT.format(epoch=epoch - 1, step=self.step, end=self._end))
        passes.expect(epoch)
        self._end = (epoch + 1) * self._batches.steps_per_epoch

    def batch_comes(self) -> None:
        self._generation = self._now

    def must_not_have_gone_back(self) -> None:
        """Called where the loop goes on to another epoch, or ends."""
        if self._generation not in (-1, self._now) and self._end is not None and self.step < self._end:
            raise Rewound(_WENT_BACK.format(step=self.step, loop=self._loop))

    @property
    def _now(self) -> int:
        work = self._trainer._rounds.newest
        return work.generation if work is not None else -1
