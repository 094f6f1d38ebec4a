"""DistributedOptimizer: reduces the gradients of all processes before the optimizer's step."""
from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from capstan.errors import Invalid
from capstan.horovod.compression import Compression, Compressor
from capstan.horovod.operations import Average, ReduceOp, Sum, op_of, reduce_flat
from capstan.horovod.process import process


class _Gradients:
    """The gradients of an optimizer's parameters: how often backward() has made each, and their reduction."""

    def __init__(self, optimizer: torch.optim.Optimizer, names: dict[torch.Tensor, str], passes: int, op: ReduceOp,
                 compression: type[Compressor], predivide: float, sparse_as_dense: bool) -> None:
        self._optimizer, self._names = optimizer, names
        self.passes, self._op, self._compression = passes, op, compression
        self._predivide, self._sparse_as_dense = predivide, sparse_as_dense
        self._seen: dict[torch.Tensor, int] = {}
        self._nodes: list[Any] = []  # keeps the hooks alive
        for parameter in self._parameters():
            self._watch(parameter)

    def _parameters(self) -> Iterator[torch.Tensor]:
        """The trained parameters, in the optimizer's order, which is that of all processes."""
        for group in self._optimizer.param_groups:
            yield from (parameter for parameter in group["params"] if parameter.requires_grad)

    def _watch(self, parameter: torch.Tensor) -> None:
        with torch.enable_grad():
            node = parameter.expand_as(parameter).grad_fn.next_functions[0][0]  # accumulates the gradient
        node.register_hook(lambda *_: self._count(parameter))
        self._nodes.append(node)

    def _count(self, parameter: torch.Tensor) -> None:
        seen = self._seen[parameter] = self._seen.get(parameter, 0) + 1
        if seen > self.passes:
            raise AssertionError("Gradients were computed more than backward_passes_per_step times before call to step(). "
                                 "Increase backward_passes_per_step to accumulate gradients locally.")

    @property
    def are_new(self) -> bool:
        """Whether backward() has made gradients that no step has used."""
        return bool(self._seen)

    def reduce(self) -> None:
        """Replaces the gradients by the reduced ones. A parameter without a gradient gets one of zeros, because other
        processes may have one."""
        self._seen.clear()
        if process.here.size == 1:
            return
        parameters = list(self._parameters())
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            elif parameter.grad.is_sparse:
                if not self._sparse_as_dense:
                    raise Invalid(f'the gradient of "{self._names.get(parameter, "a parameter")}" is sparse: give '
                                  "DistributedOptimizer(..., sparse_as_dense=True)")
                parameter.grad = parameter.grad.to_dense()
        for kind in dict.fromkeys(parameter.grad.dtype for parameter in parameters):
            self._reduce_together([one for one in parameters if one.grad.dtype == kind])

    def _reduce_together(self, parameters: list[torch.Tensor]) -> None:
        """Reduces the gradients of one type as one array."""
        flat = torch.cat([parameter.grad.reshape(-1) for parameter in parameters])
        op = self._op
        if self._predivide != 1.0:
            flat.div_(self._predivide)
            op = Sum
        sent, context = self._compression.compress(flat)
        reduce_flat(sent, op)
        flat = self._compression.decompress(sent, context)
        if self._predivide != 1.0:
            flat.mul_(self._predivide / process.here.size)
        for parameter, part in zip(parameters, torch.split_with_sizes(flat, [parameter.numel() for parameter in parameters])):
            parameter.grad.copy_(part.reshape(parameter.shape))


class _Distributed:
    """The methods that replace those of the optimizer's own class."""

    _gradients: _Gradients
    _synchronized = False
    _should_synchronize = True

    def set_backward_passes_per_step(self, passes: int) -> None:
        self._gradients.passes = passes

    def synchronize(self) -> None:
        """Reduces the gradients; call it before clipping, and then step() within skip_synchronize()."""
        self._gradients.reduce()
        self._synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        if self._should_synchronize:
            if self._synchronized:
                warnings.warn("optimizer.step() called without optimizer.skip_synchronize() context after "
                              "optimizer.synchronize(). This can cause training slowdown. You may want to consider using "
                              "optimizer.skip_synchronize() context if you use optimizer.synchronize() in your code.")
            if closure is not None:
                raise Invalid("step(closure): the closure's gradients would not be reduced; call backward() and then step()")
            self.synchronize()
        self._synchronized = False
        return super().step(closure)  # type: ignore[misc]

    def zero_grad(self, *given: Any, **named: Any) -> None:
        if self._gradients.are_new:
            raise AssertionError("optimizer.zero_grad() was called after loss.backward() but before optimizer.step() or "
                                 "optimizer.synchronize(). This is prohibited as it can cause a race condition.")
        super().zero_grad(*given, **named)  # type: ignore[misc]


def DistributedOptimizer(optimizer: Any, named_parameters: Iterable[tuple[str, torch.Tensor]] | None = None,
                         compression: type[Compressor] = Compression.none, backward_passes_per_step: int = 1,
                         op: ReduceOp = Average, gradient_predivide_factor: float = 1.0, num_groups: int = 0,
                         groups: Any = None, sparse_as_dense: bool = False, process_set: Any = None) -> Any:
    """Returns an optimizer of the same class with the same groups, whose step() first reduces the gradients over all
    processes. `num_groups` and `groups` say what travels together; here all gradients of one type do."""
    if process_set is not None and getattr(process_set, "process_set_id", None) != 0:
        raise Invalid("a process_set of some processes is not offered: gradients are reduced over all processes")
    if gradient_predivide_factor != 1.0 and op is not Average:
        raise ValueError("gradient_predivide_factor not supported with op != Average")
    if isinstance(optimizer, torch.optim.LBFGS):
        raise Invalid("LBFGS computes several gradients in one step, which would not be reduced; take another optimizer")
    named = list(named_parameters or [])
    if any(not (isinstance(entry, tuple) and len(entry) == 2) for entry in named):
        raise ValueError("named_parameters should be a sequence of tuples (name, parameter), usually produced by "
                         "model.named_parameters().")
    words = [name for name, _ in named]
    if doubled := sorted({name for name in words if words.count(name) > 1}):
        raise ValueError(f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(doubled)}")
    everything = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    if named and (lacking := everything - {id(parameter) for _, parameter in named}):
        raise ValueError(f"named_parameters was specified, but one or more model parameters were not named: "
                         f"{len(lacking)} of {len(everything)}")
    if "step" in vars(optimizer):  # a scheduler's wrapper of the class's step(), which would not reduce
        raise Invalid("the optimizer has a scheduler already, which calls its step() past hvd.DistributedOptimizer: make the "
                      "scheduler after it")
    kind = type(optimizer)
    optimizer.__class__ = type(kind.__name__, (_Distributed, kind), {})
    optimizer._gradients = _Gradients(optimizer, {parameter: name for name, parameter in named},
                                      backward_passes_per_step, op_of(op), compression, gradient_predivide_factor,
                                      sparse_as_dense)
    return optimizer
