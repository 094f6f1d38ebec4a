"""Moves the gradients of a slot from backward() into the client's memory, and from there to the servers."""
from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch

from capstan.client import Slot
from capstan.errors import Invalid, Unsupported
from capstan.tensors import Tensors
from capstan.torch import messages
from capstan.torch.parameters import Parameter
from capstan.torch.staging import Staging


class Gradients:
    """Takes each parameter's gradient when backward() has computed it, and sends it when nothing more is added to
    it."""

    def __init__(self, parameters: list[Parameter], unused: str | None = None) -> None:
        if unused not in (None, "zero"):
            raise Invalid(f'prepare(..., unused={unused!r}): wanted "zero"')
        self._parameters = parameters
        self._unused = unused
        self._staging = Staging(parameters)
        self._taking = threading.Lock()  # backward() uses a thread per device
        self._slot: Slot | None = None
        self._memory: Tensors | None = None  # the slot's gradients; None: no slot has begun
        self._in_backward = False  # gradients that arrive now belong to the slot
        self._last = False  # this is the slot's last backward(): gradients are final
        self._refusal: Exception | None = None  # why a gradient was refused
        self._failed = False  # an exception interrupted a slot whose gradients were partly sent
        for entry in parameters:
            entry.call_when_ready(self._is_ready)

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
            entry.has_gradient = entry.final = False
        self._slot, self._memory = slot, slot.begin(samples)

    def compute(self, loss: torch.Tensor, *, last: bool) -> None:
        """Runs backward() for a part of the slot; after the last part all gradients are sent."""
        self._in_backward, self._last = True, last
        try:
            torch.autograd.backward([loss])
        finally:
            self._in_backward = False
        if self._refusal is not None:
            raise self._refusal
        self._put_arrived(wait=True)
        if last:
            self.send_the_rest()

    def send_the_rest(self) -> None:
        """Sends all remaining gradients. From now on code that reads a gradient gets an error that says it was sent."""
        for entry in self._parameters:
            if not entry.final:
                self._send(entry)
        for entry in self._parameters:
            entry.hide_gradient()

    def end(self) -> None:
        """Called when the slot's gradients belong to the client."""
        for entry in self._parameters:
            entry.clear_gradient()
        self._slot = self._memory = None

    def of_the_script(self) -> Parameter | None:
        """A parameter with a gradient that does not come from Trainer.backward()."""
        return next((entry for entry in self._parameters if entry.has_own_gradient()), None)

    def must_be_clear(self) -> None:
        entry = self.of_the_script()
        if entry is not None:
            raise Invalid(f'parameter "{entry.name}" has a gradient already, which no slot asked for: call '
                          "optimizer.zero_grad() before trainer.backward(loss), and no loss.backward()")

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

    def _is_ready(self, entry: Parameter) -> None:
        with self._taking:
            if not self._in_backward or self._refusal is not None:
                return
            try:
                self._take(entry)
            except Exception as error:  # compute() raises it: torch 1.13 may hang after an exception in a hook
                self._refusal = error

    def _take(self, entry: Parameter) -> None:
        """Copies the gradient into the client's memory and frees it."""
        self._put_arrived(wait=self._staging.has(entry))
        if entry.final:
            raise Invalid(f'parameter "{entry.name}" has a second gradient in one backward(), and the first has left: '
                          "checkpointed segments that share it want use_reentrant=False")
        gradient = entry.parameter.grad
        assert gradient is not None
        if gradient.layout != torch.strided:
            raise Unsupported(f'parameter "{entry.name}" has a gradient of layout {gradient.layout}; the job takes '
                              "dense ones: make the embedding with sparse=False")
        if self._staging.wants(entry):
            self._staging.start(entry, gradient)
        else:
            self._put(entry, gradient)
        entry.clear_gradient()

    def _put_arrived(self, *, wait: bool) -> None:
        """Stores gradients that have arrived from a GPU; with `wait`, all in flight."""
        for entry, gradient in self._staging.arrived(wait=wait):
            self._put(entry, gradient)

    def _put(self, entry: Parameter, gradient: torch.Tensor) -> None:
        assert self._memory is not None
        memory = entry.view(self._memory)
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
