"""A script's computation of a slot: its backward passes, and the numbers that the job records of them."""
from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from capstan.client import Slot
from capstan.errors import Invalid
from capstan.torch import messages
from capstan.torch.batches import Piece
from capstan.torch.gradients import Gradients
from capstan.torch.grouping import Grouping
from capstan.torch.parameters import Parameter
from capstan.torch.passes import Handout
from capstan.torch.plain_passes import Kind, PlainPasses
from capstan.torch.rounds import Rounds
from capstan.torch.tally import Tally
from capstan.torch.weighing import Weighing


_UNSCALED = "unscaled_by_capstan"  # attribute of a scaled loss


def _unscaled(loss: torch.Tensor) -> torch.Tensor:
    found = getattr(loss, _UNSCALED, loss)
    assert isinstance(found, torch.Tensor)
    return found


@dataclass
class _Pass:
    """A backward pass that the script runs by itself."""

    samples: int
    slot_samples: int
    weight: float | None  # of its gradient; None: see Grouping
    syncs: bool  # it is not within no_sync()


class Computing:
    """The computation of the current slot, from its first backward pass to its end."""

    def __init__(self, rounds: Rounds, needs_slot: Callable[[], None], begins: Callable[[Slot], None]) -> None:
        """`needs_slot` makes sure that there is a slot, or raises. `begins` is called before anything of a slot is
        sent."""
        self._rounds, self._needs_slot, self._begins = rounds, needs_slot, begins
        self.tally = Tally()
        self.weighing: Weighing
        self.handout: Handout | None = None  # hands out the loader's batches
        self.gradients = Gradients([])
        self._models: list[torch.nn.Module] = []
        self._grouping = Grouping()
        self._scales = False  # the script scales its losses by itself, with a GradScaler
        self._unsynced = 0  # blocks of no_sync() around this line
        self._pass: _Pass | None = None  # the newest one of the slot

    def prepare(self, models: list[torch.nn.Module], parameters: list[Parameter], unused: str | None,
                **calls: Callable[..., None]) -> None:
        """`calls`: see Gradients."""
        self._models = models
        self.gradients = Gradients(parameters, unused, PlainPasses(self), **calls)

    def close(self) -> None:
        """From now on gradients are the script's."""
        self._models = []

    @property
    def piece(self) -> Piece | None:
        """The piece that the prepared loader has handed out, until its backward()."""
        return self.handout.piece if self.handout is not None else None

    # ---- trainer.backward() -----------------------------------------------------------------------------------------

    def backward(self, loss: torch.Tensor, samples: int | None, reduction: str | None, divided: bool | None) -> None:
        if not self._syncs:
            raise Invalid(messages.EXPLICIT_WITHIN_NO_SYNC)
        counts = self.weighing.samples(self._rounds.step, self.piece, samples, self.tally)
        self.gradients.must_be_clear()
        weight = self.weighing.weight(_unscaled(loss), counts, self.tally, reduction, divided)
        if not self.gradients.begun:
            self._begin(counts.slot)
        self._let_go()
        scale = self._factor * weight.gradient
        with self.gradients.all_or_nothing():
            self.gradients.compute(loss if scale == 1 else torch.mul(loss, scale), last=not self.tally.more_to_come)
        self.tally.computed += counts.loss
        self.tally.loss_sum += self._value(loss) * weight.loss

    def scale(self, loss: torch.Tensor) -> torch.Tensor:
        """The loss times the round's scale, from now on by the script."""
        self._scales = True
        scaled = torch.mul(loss, self._rounds.loss_scale)
        setattr(scaled, _UNSCALED, loss)
        return scaled

    @contextlib.contextmanager
    def accumulate(self, samples: int, divided: bool | None) -> Iterator[None]:
        if self.gradients.begun:
            raise Invalid("accumulate() comes once before each step(), and before backward()")
        self._begin(samples)
        with self.gradients.all_or_nothing():
            self.tally.more_to_come, self.tally.divided = True, divided
            yield
            self.tally.more_to_come = False
            if self.tally.computed != samples:
                raise Invalid(f"accumulate({samples}) saw gradients of {self.tally.computed} samples")
            self.gradients.send_the_rest()

    # ---- loss.backward() --------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        self._unsynced += 1
        try:
            yield
        finally:
            self._unsynced -= 1

    def takes_part(self) -> bool:
        return bool(self._models) and not self._rounds.done

    def pass_begins(self, loss: torch.Tensor | None) -> Kind:
        self._needs_slot()
        piece, syncs = self.piece, self._syncs
        if self.handout is None:
            if self._pass is not None and self._pass.syncs:
                raise Invalid(messages.TWO_OF_A_SLOT)
            share = self.weighing.equal_share()
            new = _Pass(share, share, 1.0, syncs)
        elif piece is None:
            raise Invalid(messages.TWO_OF_A_BATCH)
        else:
            new = _Pass(len(piece.samples), piece.slot_samples, None, syncs)
            if not syncs and new.samples != new.slot_samples:
                self._grouping.script_goes_on(self.weighing.share)
            new.weight = self._grouping.weight(new.samples, new.slot_samples)
            if new.weight is None and piece.last:
                new.weight = new.samples / new.slot_samples
        if loss is not None:
            self.weighing.must_be_a_mean(_unscaled(loss), pieces=new.samples != new.slot_samples)
        if not self.gradients.begun:
            self._begin(new.slot_samples)
        self._pass = new
        is_last = syncs and (piece is None or piece.last)
        return Kind(is_last, self._factor * (1.0 if new.weight is None else new.weight), syncs)

    def pass_ends(self, loss: torch.Tensor | None) -> None:
        newest = self._pass
        assert newest is not None
        if self.gradients.has_discarded():
            self.tally.loss_sum = 0.0
        weighs = newest.samples if not self._grouping.is_the_script_s else newest.slot_samples
        if loss is None:
            self.tally.is_unseen = True
        else:
            self.tally.newest_loss = self._value(loss)
            self.tally.loss_sum += self.tally.newest_loss * weighs
        if newest.syncs:
            self._batch_is_computed()

    def batch_is_left(self, piece: Piece, slot: Slot) -> None:
        """The script asks for the next batch of the prepared loader."""
        assert self.handout is not None
        self.gradients.settle()
        self.gradients.must_be_whole()
        newest = self._pass
        if self.handout.piece is piece:
            if newest is None or newest.syncs or self._rounds.slot is not slot:
                raise Invalid(messages.NOTHING_COMPUTED)
            if piece.last:
                raise Invalid(messages.GROUPS)
            self._batch_is_computed()
        elif self._rounds.slot is not slot or self.handout.stepped:
            return
        elif piece.last or newest is None:
            raise Invalid(messages.NO_STEP.format(share=self.weighing.share))
        else:
            was_open = newest.weight is None
            self._grouping.script_goes_on(self.weighing.share)
            if was_open:
                self.tally.loss_sum += self.tally.newest_loss * (newest.slot_samples - newest.samples)
                newest.weight = 1.0

    def batch_is_stepped(self) -> None:
        """The script calls optimizer.step(), and further batches of the slot follow."""
        if self.handout is None:
            return
        newest = self._pass
        if newest is not None and newest.samples != newest.slot_samples:
            self._grouping.script_steps()
            if newest.weight is None:
                newest.weight = newest.samples / newest.slot_samples
                self.gradients.scale(newest.weight)
        self.handout.stepped = True

    # ---- both -------------------------------------------------------------------------------------------------------

    def must_be_computed(self) -> None:
        """Raises unless optimizer.step() may end the slot, or a piece of it."""
        self.gradients.settle()
        self.gradients.must_be_whole()
        if self._pass is not None and not self._pass.syncs:
            raise Invalid(messages.NOT_SYNCED)
        if self._rounds.slot is None or not self.gradients.begun or self.piece is not None:
            raise Invalid(messages.NO_BACKWARD)

    @property
    def is_complete(self) -> bool:
        """Whether the slot's last backward() has been."""
        synced = self._pass is None or self._pass.syncs
        return self.gradients.begun and synced and self.piece is None and not self.tally.more_to_come

    def ends(self) -> Tally:
        """The slot is over; returns what was computed."""
        tally, self.tally, self._pass = self.tally, Tally(), None
        if tally.is_unseen:
            tally.loss_sum, tally.computed = 0.0, 0
        return tally

    @property
    def _syncs(self) -> bool:
        """Whether gradients of a pass may leave: by no_sync(), and by the attribute that DDP's no_sync() sets."""
        told = (model.__dict__.get("require_backward_grad_sync", True) for model in self._models)
        return self._unsynced == 0 and all(told)

    @property
    def _factor(self) -> float:
        """The part of the job's loss scale that a gradient lacks."""
        return 1.0 if self._scales else self._rounds.loss_scale

    def _value(self, loss: torch.Tensor) -> float:
        return float(loss.detach()) / (self._rounds.loss_scale if self._scales else 1.0)

    def _begin(self, samples: int) -> None:
        """The computation of a slot begins; nothing of it has been sent."""
        slot = self._rounds.slot
        assert slot is not None
        self.weighing.look_at_slot(slot, samples)
        self._begins(slot)
        self.tally.samples = samples
        self.gradients.begin(slot, samples)

    def _batch_is_computed(self) -> None:
        assert self._pass is not None
        self.tally.computed += self._pass.samples
        self._let_go()

    def _let_go(self) -> None:
        if self.handout is not None:
            self.handout.let_go()
