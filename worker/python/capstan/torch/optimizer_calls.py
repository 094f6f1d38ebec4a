"""The methods of a prepared optimizer, which the servers run."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from capstan.errors import Invalid, Unsupported


class Step:
    """Replaces optimizer.step. Any scheduler that reads its counter, other than the prepared one when it acts, would
    count only this process's calls, so it is refused."""

    def __init__(self, end_slot: Callable[[], object], is_expected: Callable[[], bool]) -> None:
        self._end_slot, self._is_expected = end_slot, is_expected

    def __call__(self, closure: Callable[[], Any] | None = None) -> Any:
        """As in torch's optimizers that call a closure once: it computes the loss and its gradient."""
        with torch.enable_grad():
            loss = None if closure is None else closure()
        self._end_slot()
        return loss

    def __deepcopy__(self, _: object) -> Step:
        return self  # belongs to one trainer

    @property
    def _with_counter(self) -> bool:
        """Schedulers of torch before 2.5 read it to see whether steps are counted."""
        if not self._is_expected():
            raise Invalid("a scheduler made after prepare() would count the steps of this process alone, and not the "
                          "job's: make it before, and give it to prepare(model, optimizer, loader, scheduler)")
        return True

    _wrapped_by_lr_sched = _with_counter  # the name since torch 2.5


def replace_calls(optimizer: torch.optim.Optimizer, step: Step, take_state: Callable[[], None]) -> None:
    """`take_state` copies the servers' state into the optimizer."""
    clear, state_dict = optimizer.zero_grad, optimizer.state_dict

    def zero_grad(set_to_none: bool = True) -> None:
        clear(set_to_none=True)  # a zero gradient would look like one from the script's own backward()

    def state_dict_of_servers() -> dict[str, Any]:
        take_state()
        return state_dict()

    def load_state_dict(_: object) -> None:
        raise Unsupported("the servers have the optimizer's state: a job goes on from its own snapshots, with capstan "
                          "launch --resume")

    def add_param_group(_: object) -> None:
        raise Unsupported("the job's tensors and their groups are declared: give prepare() all of them")

    optimizer.step = step  # type: ignore[method-assign]
    optimizer.zero_grad = zero_grad  # type: ignore[method-assign]
    optimizer.state_dict = state_dict_of_servers  # type: ignore[method-assign]
    optimizer.load_state_dict = load_state_dict  # type: ignore[method-assign,assignment]
    optimizer.add_param_group = add_param_group  # type: ignore[method-assign,assignment]
    optimizer._step_count = optimizer._opt_called = 1  # type: ignore[attr-defined]
