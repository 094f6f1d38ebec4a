"""Finds out whether the script or the job adds up the gradients of several batches."""
from __future__ import annotations

from capstan.errors import Invalid
from capstan.torch import messages


class Grouping:
    """A slot may come in several batches of the prepared loader. If the script calls optimizer.step() after each of them,
    the job adds up their gradients, weighted by their samples. If the script calls it after several, the script adds
    them up as it would alone, and the losses are scaled by the script.

    This shows with the first slot of several batches, after the first of their backward passes, and stays.
    """

    def __init__(self) -> None:
        self.is_the_script_s: bool | None = None  # None: it has not shown yet

    def weight(self, samples: int, slot_samples: int) -> float | None:
        """The factor for the gradient of a batch; None: not known before the script goes on."""
        if samples == slot_samples or self.is_the_script_s:
            return 1.0
        return None if self.is_the_script_s is None else samples / slot_samples

    def script_goes_on(self, share: int) -> None:
        """The script computes another batch of the slot, and has not called optimizer.step()."""
        if self.is_the_script_s is False:
            raise Invalid(messages.NO_STEP.format(share=share))
        self.is_the_script_s = True

    def script_steps(self) -> None:
        """The script calls optimizer.step() after a batch that is not the slot's last."""
        if self.is_the_script_s:
            raise Invalid(messages.GROUPS)
        self.is_the_script_s = False
