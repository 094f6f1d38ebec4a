"""How many samples a loss covers, from the loader or the script, and its weight in the step."""
from __future__ import annotations

import logging
from typing import Any

import torch

from capstan.client import Slot
from capstan.errors import Invalid
from capstan.torch import messages
from capstan.torch.batches import Piece, Plan
from capstan.torch.losses import LOOKS_LIKE_A_SUM, Samples, Weight, looks_like_a_sum, weigh
from capstan.torch.tally import Tally

_log = logging.getLogger("capstan")


class Weighing:
    """Weighs losses. `plan` cuts global batches if a loader is prepared; otherwise the script does."""

    def __init__(self, job: dict[str, Any], plan: Plan | None) -> None:
        self._global_batch, self._slots = int(job["global_batch"]), int(job["slots"])
        self._plan = plan
        self._has_warned = False

    @property
    def share(self) -> int:
        """The most samples of a slot in a full global batch."""
        return -(-self._global_batch // self._slots)

    def look_at_loader(self, batch_size: int) -> None:
        if batch_size > self.share and batch_size != self._global_batch:
            _log.warning("%s", messages.cut_batches(batch_size, self.share, self._global_batch, self._slots))

    def look_at_slot(self, slot: Slot, samples: int) -> None:
        """Without a plan, compares the script's number of samples with the slot's share, and warns once."""
        begin, end = (self._global_batch * part // self._slots for part in (slot.index, slot.index + 1))
        if self._plan is None and samples != end - begin and not self._has_warned:
            self._has_warned = True
            _log.warning("%s", messages.other_samples(slot.index, samples, self._global_batch, self._slots, end - begin))

    def equal_share(self) -> int:
        """The samples of a slot in a loop that chooses them by itself, and does not give their number."""
        if self._global_batch % self._slots:
            raise Invalid(messages.UNEVEN.format(global_batch=self._global_batch, slots=self._slots))
        return self.share

    def must_be_a_mean(self, loss: torch.Tensor, *, pieces: bool) -> None:
        """For a loss.backward(), which cannot say that its loss is a sum."""
        if (pieces or self._slots > 1) and looks_like_a_sum(loss):
            raise Invalid(LOOKS_LIKE_A_SUM)

    def samples(self, step: int, piece: Piece | None, said: int | None, tally: Tally) -> Samples:
        """The numbers of samples for the next backward(). `piece`: the prepared loader's current piece."""
        if self._plan is not None:
            if piece is None:
                raise Invalid(messages.TWO_OF_A_BATCH)
            return Samples(len(piece.samples), piece.slot_samples, self._plan.samples_in(step))
        if said is None or said < 1:
            raise Invalid(messages.NO_SAMPLES)
        if tally.samples > 0 and not tally.more_to_come:
            raise Invalid(messages.TWO_OF_A_SLOT)
        return Samples(said, tally.samples or said, self._global_batch)

    def weight(self, loss: torch.Tensor, samples: Samples, tally: Tally, reduction: str | None,
               divided: bool | None) -> Weight:
        return weigh(loss, samples, reduction=reduction, divided=divided if divided is not None else tally.divided,
                     pieces=tally.more_to_come or samples.loss != samples.slot, slots=self._slots)
