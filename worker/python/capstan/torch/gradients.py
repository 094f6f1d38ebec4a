"""Moves the gradients of a slot from backward() into the client's memory, and from there to the servers."""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import torch

from capstan.client import Slot
from capstan.errors import Invalid, Unsupported
from capstan.tensors import Tensors
from capstan.torch import messages
from capstan.torch.parameters import Parameter
from capstan.torch.plain_passes import PlainPasses
from capstan.torch.staging import Staging


class Gradients:
    """Takes each parameter's gradient when a backward pass has computed it, and sends it when nothing more is added to
    it. Trainer.backward() runs a pass by compute(); a pass that the script runs by itself is noticed by `plain`.

    `clear` is called before a pass adds to a parameter's gradient, and `computed` after a pass of the script's that is its
    slot's last."""

    def __init__(self, parameters: list[Parameter], unused: str | None = None, plain: PlainPasses | None = None, *,
                 clear: Callable[[Parameter], None] = lambda _: None, computed: Callable[[], None] = lambda: None) -> None:
        if unused not in (None, "zero"):
            raise Invalid(f'prepare(..., unused={unused!r}): wanted "zero"')
        self._parameters = parameters
        self._unused = unused
        self._plain, self._clear, self._computed = plain, clear, computed
        self._staging = Staging(parameters)
        self._taking = threading.Lock()  # backward() uses a thread per device
        self._slot: Slot | None = None
        self._memory: Tensors | None = None  # the slot's gradients; None: no slot has begun
        self._in_backward = False  # trainer.backward() runs: gradients that arrive now belong to the slot
        self._last = False  # this is the slot's last backward(): gradients are final
        self._factor = 1.0  # for gradients that arrive
        self._syncs = True  # the script's own pass is not within no_sync()
        self._is_the_script_s = False  # the newest pass was the script's own
        self._stepped = False  # optimizer.step() has come since that pass: the next one is to find cleared gradients
        self._refusal: Exception | None = None  # why a gradient was refused
        self._discarded = False  # zero_grad() has discarded gradients of the slot
        self._failed = False  # an exception interrupted a slot whose gradients were partly sent
        for entry in parameters:
            entry.call_when_ready(self._comes, self._is_ready)

    @property
    def begun(self) -> bool:
        return self._memory is not None

    @property
    def memory(self) -> Tensors:
        """The slot's gradients in the client's memory."""
        assert self._memory is not None
        return self._memory

    def begin(self, slot: Slot, samples: int) -> None:
        for entry in self._parameters:
            entry.has_gradient = entry.final = entry.adds_to_old = False
        self._slot, self._memory = slot, slot.begin(samples)

    def compute(self, loss: torch.Tensor, *, last: bool) -> None:
        """Runs backward() for a part of the slot; after the last part all gradients are sent."""
        for entry in self._parameters:
            entry.clear_gradient()
        self._is_the_script_s = False
        self._in_backward, self._last, self._factor = True, last, 1.0
        try:
            torch.autograd.backward([loss])
        finally:
            self._in_backward = False
        if self._refusal is not None:
            raise self._refusal
        self._put_arrived(wait=True)
        if last:
            self.send_the_rest()

    def settle(self) -> None:
        """Ends the script's own pass, if one has run and was not ended. Raises what was refused in it."""
        if self._plain is None or not self._plain.is_open:
            return
        is_whole, loss = self._plain.close()
        refusal, self._refusal = self._refusal, None
        if refusal is not None or not is_whole:
            self._failed = self._failed or self.begun
        if refusal is not None:
            raise refusal
        if not is_whole:
            return
        stepped, self._stepped = self._stepped, False
        with self.all_or_nothing():
            self._put_arrived(wait=True)
            for entry in self._parameters:  # those that the pass had no gradient for
                if entry.has_gradient and not entry.is_hidden:
                    if stepped:
                        entry.hide_gradient()
                    else:
                        self._discard(entry)
            self._plain.ends(loss)
            if self._last:
                self.send_the_rest()
                self._computed()

    def scale(self, factor: float) -> None:
        """Multiplies the gradients that the slot has so far, of which none has been sent."""
        for entry in self._parameters:
            if entry.has_gradient:
                entry.view(self.memory).mul_(factor)

    def send_the_rest(self) -> None:
        """Sends all remaining gradients. From now on code that reads a gradient gets an error that says it was sent."""
        for entry in self._parameters:
            if not entry.final:
                self._send(entry)
        for entry in self._parameters:
            entry.hide_gradient()

    def step_comes(self) -> None:
        """optimizer.step() is called. The next pass of the script's computes another gradient, as in PyTorch after
        zero_grad()."""
        if not self._is_the_script_s:
            return
        old = next((entry for entry in self._parameters if entry.adds_to_old), None)
        if old is not None:
            raise Invalid(messages.NOT_ZEROED.format(name=old.name))
        lost = next((entry for entry in self._parameters if entry.has_gradient and not entry.is_hidden), None)
        if lost is not None:
            raise Invalid(messages.ZEROED.format(name=lost.name))
        self._stepped = True

    def end(self) -> None:
        """Called when the slot's gradients belong to the client. After a pass of the script's the placeholders stay, and
        show whether the script calls zero_grad(), without which PyTorch would add up the gradients of all steps."""
        for entry in self._parameters:
            entry.has_gradient = entry.final = False
            if not self._is_the_script_s:
                entry.clear_gradient()
        self._slot = self._memory = None

    def must_be_clear(self) -> None:
        entry = next((entry for entry in self._parameters if entry.has_own_gradient()), None)
        if entry is not None:
            raise Invalid(f'parameter "{entry.name}" has a gradient already, which no slot asked for: call '
                          "optimizer.zero_grad() before trainer.backward(loss)")

    def must_be_whole(self) -> None:
        if self._failed:
            raise Invalid("backward() was left by an exception, and gradients of its slot have left: start the process "
                          "again; the job waits for it, or gives the slot to another one")

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """After an exception inside, the slot cannot be ended any more."""
        try:
            yield
        except BaseException:
            self._failed = True
            raise

    def _comes(self, entry: Parameter) -> None:
        """A pass is about to add a gradient to the parameter's."""
        with self._taking:
            if self._in_backward or self._plain is None:
                return
            try:
                is_new = self._plain.notice(self._pass_ends, self.settle)
                if is_new is None:
                    if entry.is_hidden and not self._plain.takes_part:
                        entry.clear_gradient()  # the gradient that comes is the script's
                    return
                if is_new:
                    self.must_be_whole()
                    self._last, self._factor, self._syncs = self._plain.begins()
                    self._is_the_script_s = True
                if self._refusal is None:
                    self._make_room(entry)
            except Exception as error:  # settle() raises it: torch 1.13 may hang after an exception in a hook
                self._refusal = error
            if self._refusal is not None and entry.is_hidden:
                entry.clear_gradient()

    def _make_room(self, entry: Parameter) -> None:
        """Follows what plain PyTorch would add the new gradient to, by what stands in .grad."""
        self._put_arrived(wait=self._staging.has(entry))
        self._clear(entry)
        if entry.final:
            raise Invalid(messages.SECOND_GRADIENT.format(name=entry.name))
        if entry.is_hidden:
            is_from_before = self._stepped or not entry.has_gradient
            if entry.adds_to_old or (is_from_before and (self._syncs or entry.has_gradient)):
                raise Invalid(messages.NOT_ZEROED.format(name=entry.name))
            entry.adds_to_old = is_from_before
            entry.clear_gradient()
        elif not self._stepped:
            self._discard(entry)

    def _discard(self, entry: Parameter) -> None:
        """zero_grad() has cleared what the slot had of this gradient."""
        self._discarded = self._discarded or entry.has_gradient
        entry.has_gradient = entry.adds_to_old = False

    def has_discarded(self) -> bool:
        """Whether zero_grad() has discarded gradients of the slot since the last call."""
        discarded, self._discarded = self._discarded, False
        return discarded

    def _pass_ends(self) -> None:
        """Autograd calls it at the end of a pass of the script's. What it raises leaves loss.backward()."""
        if self._plain is not None and self._plain.is_open and self._plain.has_ended():
            self.settle()

    def _is_ready(self, entry: Parameter) -> None:
        with self._taking:
            is_plain = self._plain is not None and self._plain.is_open
            if not (self._in_backward or is_plain) or self._refusal is not None:
                return
            try:
                self._take(entry)
            except Exception as error:  # compute() raises it, or settle()
                self._refusal = error

    def _take(self, entry: Parameter) -> None:
        """Copies the gradient into the client's memory and frees it."""
        self._put_arrived(wait=self._staging.has(entry))
        if entry.final:
            raise Invalid(messages.SECOND_GRADIENT.format(name=entry.name))
        gradient = entry.parameter.grad
        assert gradient is not None
        if gradient.layout != torch.strided:
            raise Unsupported(f'parameter "{entry.name}" has a gradient of layout {gradient.layout}; the job takes '
                              "dense ones: make the embedding with sparse=False")
        if self._staging.wants(entry):
            self._staging.start(entry, gradient)
        else:
            self._put(entry, gradient)
        if self._in_backward:
            entry.clear_gradient()
        else:
            entry.hide_gradient()

    def _put_arrived(self, *, wait: bool) -> None:
        """Stores gradients that have arrived from a GPU; with `wait`, all in flight."""
        for entry, gradient in self._staging.arrived(wait=wait):
            self._put(entry, gradient)

    def _put(self, entry: Parameter, gradient: torch.Tensor) -> None:
        assert self._memory is not None
        memory = entry.view(self._memory)
        if self._factor != 1:
            gradient = torch.mul(gradient, self._factor)
        if entry.has_gradient:
            memory.add_(gradient.to(memory.device))
        else:
            memory.copy_(gradient)
        entry.has_gradient = True
        if self._last:
            self._send(entry)

    def _send(self, entry: Parameter) -> None:
        assert self._slot is not None
        if not entry.has_gradient:
            self._fill(entry, self._slot)
        entry.final = True
        self._slot.ready(entry.name)

    def _fill(self, entry: Parameter, slot: Slot) -> None:
        """Fills in a zero gradient for a parameter that the loss does not depend on, or raises."""
        step = slot.key[1]
        if not entry.parameter.requires_grad:
            raise Invalid(messages.FROZEN.format(name=entry.name, step=step))
        if self._unused is None:
            raise Invalid(f'parameter "{entry.name}" has no gradient in slot {slot.index} of step {step}: '
                          f"{messages.NO_GRADIENT}")
        entry.view(self.memory).zero_()
        entry.has_gradient = True
