"""For a framework whose loop counts its steps by itself: the process computes one slot of each step and no other, so a
step of the loop is a step of the job."""
from __future__ import annotations

import logging
from typing import Any

from capstan.errors import Invalid, Rewound, Unsupported
from capstan.place import Identity
from capstan.torch.orders import batches_of
from capstan.torch.joining import global_batch_of
from capstan.torch.passes import Batches
from capstan.torch.trainer import Trainer, connect

_log = logging.getLogger("capstan")
_NO_NUMBERS = "the training loader has no samples by number, or batches of a sampler of its own, and the job shares the samples out: {advice}"
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
    if identity.notice:
        options.get("on_notice", _log.warning)(identity.notice)
    return connect(coordinator, rank=identity.rank, ranks=identity.ranks, **options)


def must_have_numbers(loader: Any, advice: str) -> None:
    """Raises for a stream and for a batch_sampler of the script's own. `advice` is what to write in this framework."""
    try:
        batches_of(loader)
    except Unsupported as error:
        raise Unsupported(_NO_NUMBERS.format(advice=advice)) from error


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
        self._newest = (-1, -1)  # the place of this batch
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
    def ranks(self) -> int:
        """The number of processes."""
        return self._trainer.ranks

    @property
    def samples(self) -> int:
        """Those of this process in the current step, once it has a batch of it."""
        piece = self._trainer._computing.piece
        return piece.slot_samples if piece is not None else 0

    @property
    def is_done(self) -> bool:
        return self._trainer.done

    def batch_within(self, epoch: int) -> int:
        """The number of the current batch within this epoch of the loop's. 0 for batches of an earlier epoch, to which the
        job went back."""
        within = self.step - epoch * self._batches.steps_per_epoch
        return max(0, within * self._accumulates + self._place[1])

    def begin_pass(self, epoch: int) -> None:
        """The loop begins a pass over the batches, which is of this epoch."""
        passes = self._trainer._passes
        assert passes is not None
        self.must_not_have_gone_back()
        if not self.is_done and self._end is not None and self.step < self._end:
            raise Invalid(_LEFT.format(epoch=epoch - 1, step=self.step, end=self._end))
        passes.expect(epoch)
        self._end = (epoch + 1) * self._batches.steps_per_epoch

    def batch_comes(self) -> None:
        self._generation, self._newest = self._now, self._place

    def must_not_repeat(self) -> None:
        """For a loop that takes a set number of batches. Called with a batch, before batch_comes()."""
        if self._place <= self._newest:
            raise Rewound(_WENT_BACK.format(step=self.step, loop=self._loop))

    def must_not_have_gone_back(self) -> None:
        """Called where the loop goes on to another epoch, or ends."""
        if not self.is_done and self._generation not in (-1, self._now) and self._end is not None and self.step < self._end:
            raise Rewound(_WENT_BACK.format(step=self.step, loop=self._loop))

    @property
    def _place(self) -> tuple[int, int]:
        """The current step, and the number of the current batch in this process's slot."""
        piece = self._trainer._computing.piece
        return self.step, piece.index if piece is not None else 0

    @property
    def _now(self) -> int:
        work = self._trainer._rounds.newest
        return work.generation if work is not None else -1
