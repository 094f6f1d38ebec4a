"""The torch.optim classes that servers can run: the job file's optimizer for each class, and the hyper-parameters of
its groups. Options that the servers would compute differently are refused by name."""
from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from capstan.errors import Invalid, Unsupported
from capstan.hyper_parameters import HyperParameters

Group = dict[str, Any]  # an entry of optimizer.param_groups


Scalars = dict[str, torch.Tensor]  # the part of torch's state of a parameter that is no array


def _common(group: Group, **others: Any) -> HyperParameters:
    return HyperParameters(learning_rate=float(group["lr"]), weight_decay=group["weight_decay"],
                           maximize=bool(group.get("maximize", False)), **others)


def _sgd(group: Group) -> HyperParameters:
    return _common(group, momentum=group["momentum"], nesterov=group["nesterov"], dampening=group["dampening"])


def _adam(group: Group) -> HyperParameters:
    return _common(group, betas=tuple(group["betas"]), eps=group["eps"])


def _adagrad(group: Group) -> HyperParameters:
    return _common(group, eps=group["eps"], lr_decay=group["lr_decay"],
                   initial_accumulator_value=group["initial_accumulator_value"])


def _rmsprop(group: Group) -> HyperParameters:
    return _common(group, eps=group["eps"], alpha=group["alpha"], momentum=group["momentum"])


def _adadelta(group: Group) -> HyperParameters:
    return _common(group, eps=group["eps"], alpha=group["rho"])


def _radam(group: Group) -> HyperParameters:
    return _common(group, betas=tuple(group["betas"]), eps=group["eps"],
                   decoupled_weight_decay=bool(group.get("decoupled_weight_decay", False)))


def _nadam(group: Group) -> HyperParameters:
    return replace(_radam(group), momentum_decay=group["momentum_decay"])


def _no_scalars(group: Group, updates: int) -> Scalars:
    return {}


def _step(group: Group, updates: int) -> Scalars:
    return {"step": torch.tensor(float(updates))}


def _nadam_scalars(group: Group, updates: int) -> Scalars:
    product = 1.0
    for step in range(1, updates + 1):
        product *= group["betas"][0] * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))
        if product < 1e-45:  # below every float32
            product = 0.0
            break
    return {**_step(group, updates), "mu_product": torch.tensor(product)}


def _no_problem(optimizer: torch.optim.Optimizer, group: Group) -> str:
    return ""


def _adagrad_problem(optimizer: torch.optim.Optimizer, group: Group) -> str:
    given, own = optimizer.defaults["initial_accumulator_value"], group["initial_accumulator_value"]
    if own == given:
        return ""
    return (f"has initial_accumulator_value={own}, and torch takes that of all groups, {given}: write "
            f"Adagrad(..., initial_accumulator_value={given}) and leave it out of the groups")


def _nadam_problem(optimizer: torch.optim.Optimizer, group: Group) -> str:
    if group.get("foreach") or int(torch.__version__.split(".")[0]) >= 2:
        return ""
    return (f"is computed otherwise by PyTorch {torch.__version__}, which multiplies one momentum twice unless it "
            "computes with foreach; the servers compute as PyTorch 2 does: write NAdam(..., foreach=True)")


@dataclass(frozen=True)
class Rule:
    """How one class of torch.optim runs on the servers."""

    kinds: tuple[str, ...]  # allowed values of the job file's optimizer.kind
    hyper_parameters: Callable[[Group], HyperParameters]
    scalars: Callable[[Group, int], Scalars] = _step
    of_job: tuple[str, ...] = ()  # options that decide which arrays the servers keep: the job file has them
    fixed: tuple[str, ...] = ()  # options that must not change while the job runs
    unknown: tuple[str, ...] = ()  # options that the servers do not support; they must be off
    # Says why the servers would compute a group otherwise than this class does, and what to write; "": they would not.
    problem: Callable[[torch.optim.Optimizer, Group], str] = _no_problem


_RULES: dict[type, Rule] = {
    torch.optim.SGD: Rule(("momentum", "sgd"), _sgd, _no_scalars),
    torch.optim.Adam: Rule(("adam",), _adam, of_job=("amsgrad",), unknown=("decoupled_weight_decay",)),
    torch.optim.AdamW: Rule(("adamw",), _adam, of_job=("amsgrad",)),
    torch.optim.Adagrad: Rule(("adagrad",), _adagrad, problem=_adagrad_problem),
    torch.optim.RMSprop: Rule(("rmsprop",), _rmsprop, of_job=("centered",)),
    torch.optim.Adadelta: Rule(("adadelta",), _adadelta),
    torch.optim.Adamax: Rule(("adamax",), _adam),
    torch.optim.NAdam: Rule(("nadam",), _nadam, _nadam_scalars, fixed=("betas", "momentum_decay"),
                            problem=_nadam_problem),
    torch.optim.RAdam: Rule(("radam",), _radam),
}


def has_stepped(state: dict[str, Any]) -> bool:
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


def kind_of(optimizer: torch.optim.Optimizer) -> str:
    """The value of optimizer.kind of a job that is made for this optimizer."""
    rule = _rule_for(type(optimizer))
    if rule is None:
        return "external"
    if "sgd" in rule.kinds and not any(group["momentum"] for group in optimizer.param_groups):
        return "sgd"  # which keeps no state
    return rule.kinds[0]


def options_of_job(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """The entries of [optimizer] beside its kind by which a job that is made for this optimizer keeps its arrays."""
    rule = _rule_for(type(optimizer))
    if rule is None:
        return {}
    groups = optimizer.param_groups
    options: dict[str, Any] = {option: True for option in rule.of_job if any(group.get(option) for group in groups)}
    if "rmsprop" in rule.kinds and (momentum := max(group["momentum"] for group in groups)):
        options["momentum"] = float(momentum)
    return options


def rule_of(optimizer: torch.optim.Optimizer, job: dict[str, Any]) -> Rule:
    """`job`: section [optimizer] of the job file."""
    name = type(optimizer).__name__
    rule = _rule_for(type(optimizer))
    if rule is None:
        known = ", ".join(known.__name__ for known in _RULES)
        raise Unsupported(f'the servers do not run {name}; they run torch.optim\'s {known}. With optimizer.kind = '
                          '"external" in the job file, this process runs it')
    if job["kind"] not in rule.kinds:
        raise Invalid(f'the script\'s optimizer is {name}, the job\'s is optimizer.kind = "{job["kind"]}"; set it to '
                      f'"{rule.kinds[0]}" in the job file')
    for index, group in enumerate(optimizer.param_groups):
        _check_group(f"{name}, group {index}", rule, group, job)
        if (problem := rule.problem(optimizer, group)):
            raise Unsupported(f"{name}, group {index}, {problem}")
    if any(has_stepped(state) for state in optimizer.state.values()):
        raise Unsupported(f"{name} has taken steps already, and its state would be lost: give prepare() a fresh one; a "
                          "job goes on from its own snapshots, with capstan launch --resume")
    return rule


def _check_group(where: str, rule: Rule, group: Group, job: dict[str, Any]) -> None:
    for option in rule.unknown:
        if group.get(option):
            raise Unsupported(f"{where}: the servers do not know {option}={group[option]}; leave it out")
    for option in rule.of_job:
        if bool(group.get(option)) != job[option]:
            toml = str(bool(group.get(option))).lower()
            raise Invalid(f"{where} has {option}={group.get(option)}, and the job's is optimizer.{option} = "
                          f"{str(job[option]).lower()}, for all groups; set it to {toml} in the job file")
    if job["kind"] == "sgd" and group["momentum"]:
        raise Invalid(f'{where}, has momentum={group["momentum"]}, and the job\'s is optimizer.kind = "sgd"; set it to '
                      '"momentum" in the job file')
    if job["kind"] == "rmsprop" and group["momentum"] and not job["momentum"]:
        raise Invalid(f'{where} has momentum={group["momentum"]}, and the servers keep no momentum in this job; set '
                      f'optimizer.momentum = {group["momentum"]} in the job file')
