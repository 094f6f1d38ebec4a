"""A script's passes over the prepared loader. Each is one epoch of the job and yields this process's share."""
from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader

from capstan.client import Slot, Work
from capstan.errors import Invalid
from capstan.torch import messages
from capstan.torch.batches import Fetcher, Piece, Plan
from capstan.torch.stand_in import StandIn

if TYPE_CHECKING:
    from capstan.torch.trainer import Trainer

_log = logging.getLogger("capstan")


class Passes:
    """The script's pass number k is the job's epoch number k. If the job is further, because this process began late or
    was restarted, the pass is empty."""

    def __init__(self, steps_per_epoch: int, steps: int) -> None:
        self.steps_per_epoch = steps_per_epoch
        self._steps = steps
        self._epoch = -1  # epoch of the newest pass
        self._used = True  # the newest pass has computed something or has ended, so the next pass is for the next epoch
        self._expected: int | None = None  # the epoch of the next pass, if epochs() has yielded it
        self._said: set[str] = set()

    @property
    def end(self) -> int:
        """The step at which the newest pass ends."""
        return (self._epoch + 1) * self.steps_per_epoch

    def expect(self, epoch: int) -> None:
        self._expected = epoch

    @property
    def is_expected(self) -> bool:
        """Whether the epoch that epochs() has yielded has had no pass yet."""
        return self._expected is not None

    def begin(self, step: int, *, done: bool) -> None:
        """`step`: the job's current step."""
        if self._expected is not None:
            self._epoch = self._expected
        elif self._used:
            self._epoch += 1
        self._expected, self._used = None, False
        first = self._epoch * self.steps_per_epoch
        if done and first >= self._steps:
            epochs = f"{self._steps / self.steps_per_epoch:.4g} epochs of {self.steps_per_epoch} steps"
            self._say("over", f"the job is done: its {self._steps} steps are {epochs}, and this is the script's pass "
                              f"{self._epoch + 1} over the loader. It is empty, and so is each one after it. Set job.steps "
                              f"to {self.steps_per_epoch} times the number of epochs, or loop over trainer.epochs(), which "
                              "ends with the job")
        elif step >= self.end:
            self._say("late", f"the job is at step {step}, in epoch {step // self.steps_per_epoch}: the script's "
                      "passes over earlier epochs are empty, and what comes after each of them (validation, "
                      "checkpoints) sees the weights of now. A loop over trainer.epochs() begins with the job's epoch")

    def has_computed(self) -> None:
        self._used = True

    def ends(self) -> None:
        self._used = True

    def _say(self, key: str, text: str) -> None:
        if key not in self._said:
            self._said.add(key)
            _log.warning("%s", text)


class Handout:
    """Hands out the pieces of the current slot in order. A piece that was not computed is handed out again."""

    def __init__(self, fetcher: Fetcher, passes: Passes) -> None:
        self._fetcher, self._passes = fetcher, passes
        self._slot: Slot | None = None
        self._rest: Iterator[Piece] = iter(())  # remaining pieces of the slot
        self._ahead: deque[tuple[Piece, Any]] = deque()  # those of them that look_ahead() has fetched
        self._batch: Any = None
        self.piece: Piece | None = None  # handed out and without backward() yet
        self.stepped = False  # optimizer.step() came after the backward() of the newest piece

    @property
    def plan(self) -> Plan:
        return self._fetcher.plan

    def next(self, work: Work, slot: Slot) -> tuple[Piece, Any]:
        """Returns a piece and its batch. A piece without samples: the slot has nothing to compute."""
        if slot is not self._slot:
            self._slot, self._rest, self.piece = slot, self.plan.pieces(work.step, slot.index), None
            self._ahead.clear()
        if self.piece is None:
            self.stepped = False
            if self._ahead:
                self.piece, self._batch = self._ahead.popleft()
                return self.piece, self._batch
            self.piece = next(self._rest, None)
            if self.piece is None:  # the script left a loop between backward() and step()
                raise Invalid(messages.NO_STEP.format(share="the share of a slot"))
            if self.piece.samples:
                self._batch = self._fetcher.fetch(self.piece, work.slot_indices)
        return self.piece, self._batch

    def look_ahead(self, work: Work) -> list[Any]:
        """Fetches the slot's batches after the current one, and returns them; next() will hand them out."""
        self._ahead.extend((piece, self._fetcher.fetch(piece, work.slot_indices)) for piece in self._rest)
        return [batch for _, batch in self._ahead]

    def pass_over(self) -> None:
        """The piece has no samples."""
        self.piece = self._batch = None

    def let_go(self) -> None:
        """The piece is computed or skipped."""
        self.pass_over()
        self._passes.has_computed()


class _Sampler(StandIn):
    """A read-only view of the script's sampler. The job itself chooses the samples and shuffles them in each epoch."""

    def set_epoch(self, epoch: int) -> None:
        pass

    def __len__(self) -> int:
        return len(self._original)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._original)


class Batches(StandIn):
    """The prepared loader. A pass over it is one epoch of the job, and ends with it for all processes.

    len() is the number of batches in a pass for this process's current slots: a whole epoch's with one process, its
    share with several. Other attributes, like dataset or batch_size, are those of the script's loader.
    """

    def __init__(self, trainer: Trainer, loader: DataLoader[Any], plan: Plan) -> None:
        super().__init__(loader)
        self._trainer, self._loader, self._plan = trainer, loader, plan

    @property
    def epoch(self) -> int:
        """The number of finished epochs."""
        return self._trainer.global_step // self.steps_per_epoch

    @property
    def steps_per_epoch(self) -> int:
        return self._plan.steps_per_epoch

    @property
    def sampler(self) -> _Sampler:
        return _Sampler(self._loader.sampler)

    def rest_of_slot(self) -> list[Any]:
        """The batches of the present slot after the one that the loop has just got. The loop still gets each of them in its
        turn; this is for losses that depend on all batches of an update, such as a mean over all their tokens."""
        return self._trainer._rest_of_slot()

    def batches_of(self, slot: int) -> int:
        """The number of batches in a pass for a process that computes this slot and no other."""
        return self._plan.batches_per_epoch([slot])

    def __len__(self) -> int:
        return self._plan.batches_per_epoch(self._trainer._own_slots())

    def __iter__(self) -> Iterator[Any]:
        return self._trainer._pass()
