"""Classifies a loss: the mean over its samples, their sum, or a mean that the script has divided already. If the loss's
graph contradicts the call, an error asks the script to be explicit."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from capstan.errors import Invalid

LOOKS_LIKE_A_SUM = (
    "the loss is a sum over its samples, by its graph, and the job takes the mean over its slots: write "
    'trainer.backward(loss, reduction="sum"), which gives the gradient of the sum over the global batch, as PyTorch alone '
    'has it, or reduction="mean" where it is a mean')
_LOOKS_DIVIDED_PIECES = (
    "the loss is a mean that was divided before backward(), and the job weighs the pieces of a slot by their samples: "
    "leave the division out, or write accumulate(samples, divided=True) around the calls, or backward(loss, "
    "divided=True) with a prepared loader; divided=False says that the division belongs to the loss")
_DIVIDED_WHOLE = (
    "divided=True: this loss is all of its slot, and the job takes the mean over its slots by itself: leave the division out")
_LOOKS_DIVIDED = (
    "the loss is a mean that was divided before backward(). Where the division belongs to an accumulation of the "
    "script's, leave it out: the job takes the mean over job.global_batch by itself, and the gradient would be too "
    "small; backward(loss, divided=False) says that the division belongs to the loss")
# Autograd nodes that add, scale or negate the terms of a loss. The terms are searched for behind them.
_THROUGH = ("AddBackward0", "SubBackward0", "MulBackward0", "NegBackward0")
_NODES_MAX = 64
_SUM = 2  # torch's number for a loss function's reduction "sum"; "mean" is 1


def _kind(node: Any) -> str:
    name = node.name()
    reduction = getattr(node, "_saved_reduction", None)
    if name.startswith("Mean") or reduction == 1:
        return "mean"
    if name.startswith("Sum") or reduction == _SUM:
        return "sum"
    return "quotient" if name.startswith("Div") else ""


def _kinds(node: Any) -> set[str]:
    """The kinds of a loss's terms."""
    found: set[str] = set()
    nodes, seen = [node], 0
    while nodes and seen < _NODES_MAX:
        node, seen = nodes.pop(), seen + 1
        if node is None:
            continue
        found.add(_kind(node))
        if node.name() in _THROUGH:
            nodes.extend(before for before, _ in node.next_functions)
    return found


def looks_like_a_sum(loss: torch.Tensor) -> bool:
    """Whether a term is a sum over samples and no term is a mean."""
    kinds = _kinds(loss.grad_fn) if loss.grad_fn is not None else set()
    return "sum" in kinds and not kinds & {"mean", "quotient"}


def looks_divided(loss: torch.Tensor) -> bool:
    """Whether the loss is a mean divided by a number other than 1. A divided sum counts as a mean."""
    node = loss.grad_fn
    if node is None or not node.name().startswith("Div"):
        return False
    divisor = getattr(node, "_saved_other", None)
    if isinstance(divisor, torch.Tensor) and divisor.numel() == 1 and divisor.item() == 1:
        return False
    return "mean" in _kinds(node.next_functions[0][0])


@dataclass(frozen=True)
class Samples:
    """The numbers of samples in a loss, its slot and its step."""

    loss: int
    slot: int
    step: int  # in all slots


@dataclass(frozen=True)
class Weight:
    """The factors for a loss."""

    gradient: float  # applied before backward(), so that pieces add up to the slot's mean
    loss: float  # for the sum of the samples' losses, which the job records


def weigh(loss: torch.Tensor, samples: Samples, *, reduction: str | None, divided: bool | None, pieces: bool,
          slots: int) -> Weight:
    """`pieces`: the loss is one of several of its slot. `reduction` and `divided` are None if the script does not give
    them: then the loss is a mean, unless its graph contradicts that."""
    if reduction not in (None, "mean", "sum"):
        raise Invalid(f'backward(loss, reduction={reduction!r}): wanted "mean" or "sum"')
    if reduction is None and (pieces or slots > 1) and looks_like_a_sum(loss):
        raise Invalid(LOOKS_LIKE_A_SUM)
    if reduction == "sum":
        return Weight(samples.step / samples.slot, 1.0)
    if divided is None and looks_divided(loss):
        raise Invalid(_LOOKS_DIVIDED_PIECES if pieces else _LOOKS_DIVIDED)
    if divided and not pieces:
        raise Invalid(_DIVIDED_WHOLE)
    return Weight(1.0, samples.slot) if divided else Weight(samples.loss / samples.slot, samples.loss)
