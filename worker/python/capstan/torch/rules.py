"""The torch.optim classes that servers can run: the job file's optimizer for each class, and the hyper-parameters of
its groups. Options that the servers would compute differently are refused by name."""
from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from capstan.errors import Invalid, Unsupported
from capstan.hyper_parameters import HyperParameters

Group = dict[str, Any]  # an entry of optimizer.param_groups


def _sgd(group: Group) -> HyperParameters:
    return HyperParameters(learning_rate=float(group["lr"]), momentum=group["momentum"], nesterov=group["nesterov"],
                           weight_decay=group["weight_decay"])


def _adam(group: Group) -> HyperParameters:
    return HyperParameters(learning_rate=float(group["lr"]), betas=tuple(group["betas"]), eps=group["eps"],
                           weight_decay=group["weight_decay"])


def _adagrad(group: Group) -> HyperParameters:
    return HyperParameters(learning_rate=float(group["lr"]), eps=group["eps"], weight_decay=group["weight_decay"])


@dataclass(frozen=True)
class Rule:
    """How one class of torch.optim runs on the servers."""

    kinds: tuple[str, ...]  # allowed values of the job file's optimizer.kind
    hyper_parameters: Callable[[Group], HyperParameters]
    counts_steps: bool  # torch's state of a parameter includes the number of steps
    unknown: tuple[str, ...]  # options that the servers do not support; they must be off


_RULES: dict[type, Rule] = {
    torch.optim.SGD: Rule(("momentum", "sgd"), _sgd, False, ("dampening", "maximize")),
    torch.optim.Adam: Rule(("adam",), _adam, True, ("amsgrad", "maximize", "decoupled_weight_decay")),
    torch.optim.AdamW: Rule(("adamw",), _adam, True, ("amsgrad", "maximize")),
    torch.optim.Adagrad: Rule(("adagrad",), _adagrad, True, ("lr_decay", "initial_accumulator_value", "maximize")),
}


def _has_stepped(state: dict[str, Any]) -> bool:
    return float(state.get("step", 0)) > 0 or state.get("momentum_buffer") is not None


def _rule_for(kind: type) -> Rule | None:
    """The rule for the class, or for its nearest base class that has one and the same step(). In newer
    torch, AdamW itself derives from Adam."""
    for base in kind.__mro__:
        if base in _RULES:
            return _RULES[base] if kind is base or _same_step(kind, base) else None
    return None


def _same_step(kind: type, known: type) -> bool:
    """Compares unwrapped functions, because torch wraps a class's step() when it makes the first object."""
    return inspect.unwrap(kind.step) is inspect.unwrap(known.step)  # type: ignore[attr-defined]


def _known_rule(optimizer: torch.optim.Optimizer) -> Rule:
    rule = _rule_for(type(optimizer))
    if rule is None:
        known = ", ".join(known.__name__ for known in _RULES)
        raise Unsupported(f"the servers do not run {type(optimizer).__name__}; they run torch.optim's {known}")
    return rule


def kind_of(optimizer: torch.optim.Optimizer) -> str:
    """The value of optimizer.kind of a job that is made for this optimizer."""
    rule = _known_rule(optimizer)
    if "sgd" in rule.kinds and not any(group["momentum"] for group in optimizer.param_groups):
        return "sgd"  # which keeps no state
    return rule.kinds[0]


def rule_of(optimizer: torch.optim.Optimizer, kind: str) -> Rule:
    """`kind`: the job file's optimizer.kind."""
    name = type(optimizer).__name__
    rule = _known_rule(optimizer)
    if kind not in rule.kinds:
        raise Invalid(f'the script\'s optimizer is {name}, the job\'s is optimizer.kind = "{kind}"; set it to '
                      f'"{rule.kinds[0]}" in the job file')
    for index, group in enumerate(optimizer.param_groups):
        for option in rule.unknown:
            if group.get(option):
                raise Unsupported(f"{name}, group {index}: the servers do not know {option}={group[option]}; leave it "
                                  "out")
        if kind == "sgd" and group["momentum"]:
            raise Invalid(f'SGD, group {index}, has momentum={group["momentum"]}, and the job\'s is optimizer.kind = '
                          '"sgd"; set it to "momentum" in the job file')
    if any(_has_stepped(state) for state in optimizer.state.values()):
        raise Unsupported(f"{name} has taken steps already, and its state would be lost: give prepare() a fresh one; a "
                          "job goes on from its own snapshots, with capstan launch --resume")
    return rule
