"""The client of a job's worker, and its rounds of work."""
from __future__ import annotations

import contextlib
import ctypes
import functools
import operator
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from capstan import abi
from capstan.collectives import Collectives
from capstan.errors import Error, Invalid, Stale
from capstan.handle import Handle, key_file_bytes, own_name, patiently, text_bytes
from capstan.hyper_parameters import HyperParameters
from capstan.notices import log
from capstan.place import Identity
from capstan.tensors import INITIALS, Tensor, Tensors


def _notice(say: Callable[[str], object]) -> Any:
    return abi.Notice(lambda _, text: say(text.decode(errors="replace")))


def _row(tensor: Tensor) -> abi.Tensor:
    shape = (ctypes.c_int64 * len(tensor.shape))(*map(operator.index, tensor.shape))
    return abi.Tensor(name=text_bytes("the tensor's name", tensor.name), shape=shape, dimensions=len(shape),
                      initial=INITIALS.index(tensor.initial), scale=tensor.scale,
                      no_weight_decay=not tensor.weight_decay, group=operator.index(tensor.group),
                      statistic=tensor.statistic)


def _group_row(group: HyperParameters) -> abi.HyperParameters:
    beta1, beta2 = group.betas
    return abi.HyperParameters(learning_rate=group.learning_rate, momentum=group.momentum, beta1=beta1, beta2=beta2,
                               eps=group.eps, weight_decay=group.weight_decay, nesterov=group.nesterov,
                               dampening=group.dampening, alpha=group.alpha, lr_decay=group.lr_decay,
                               initial_accumulator_value=group.initial_accumulator_value,
                               momentum_decay=group.momentum_decay, maximize=group.maximize,
                               decoupled_weight_decay=group.decoupled_weight_decay)


def _metric_row(name: str, total: float, weight: float) -> abi.Metric:
    return abi.Metric(name=text_bytes("the metric's name", name), sum=total, weight=weight)


def _given(tensors: Sequence[Tensor], given: Mapping[str, Any]) -> Any:
    """A flat array with the first weights of tensors with initial="given"; None if there are none."""
    wanted = {tensor.name: tensor for tensor in tensors if tensor.initial == "given"}
    for name in sorted(given.keys() - wanted.keys()):
        raise Invalid(f'first weights are given for "{name}", and no tensor of that name has initial="given"')
    if not wanted:
        return None
    flat = (ctypes.c_float * sum(tensor.element_count for tensor in tensors))()
    views = Tensors(tensors, ctypes.addressof(flat), flat, writable=True)
    for name, tensor in wanted.items():
        if name not in given:
            raise Invalid(f'tensor "{name}" has initial="given"; declare(..., given={{"{name}": its first weights}})')
        views[name] = given[name]
    return flat


# How a program gets the version of a round, in the order of capstan_source.
SOURCES = ("servers", "current", "gradient", "skipped", "whole")


class Slot:
    """One slot of a round: begin(), fill the gradient, end()."""

    def __init__(self, work: Work, index: int) -> None:
        self._work = work
        self.index = index

    @property
    def key(self) -> tuple[int, int, int]:
        """(job's seed, step, slot). The slot's samples and random numbers may depend on nothing else."""
        return self._work.client.job["job"]["seed"], self._work.step, self.index

    def begin(self, samples: int) -> Tensors:
        """Returns the views to write the slot's gradient to: the mean over its samples, times the loss scale.

        Overwrite all of it; after end() it belongs to the client.
        """
        if samples < 1:
            raise Invalid(f"slot {self.index} has {samples} samples; pass over a slot that has none with skip()")
        return self._work.client._begin(self.index, operator.index(samples))

    def ready(self, name: str) -> None:
        """Declares this tensor's gradient final, so that finished blocks are sent at once. Optional.

        Name each tensor at most once in a slot. The second time is Invalid, because the gradient may have been sent.
        """
        self._work.client._ready(name)

    def ready_from(self, name: str, element: int) -> None:
        """Declares this tensor's gradient final from an element on, counted in row-major order. Optional.

        So a large tensor's blocks are sent while the rest of its gradient is computed, from its end to its start.
        ready() or end() declares the rest, unless element 0 was named. Invalid if the tensor does not have the
        element, or if it is not below the one named before.
        """
        self._work.client._ready_from(name, operator.index(element))

    def end(self, loss_sum: float, predictions: int, *, validation_loss_sum: float = 0.0,
            validation_predictions: int = 0, validation_correct: int = 0,
            metrics: Mapping[str, tuple[float, float]] | None = None) -> None:
        """Declares all gradients of the slot final. `loss_sum` is the sum over `predictions` predictions.

        `metrics` has pairs (sum, weight) by name. The job records each metric's sum / weight over all slots of the
        step.
        """
        rows = [_metric_row(name, *pair) for name, pair in (metrics or {}).items()]
        self._work._end(self.index, abi.Result(
            loss_sum=loss_sum, predictions=operator.index(predictions), validation_loss_sum=validation_loss_sum,
            validation_predictions=operator.index(validation_predictions),
            validation_correct=operator.index(validation_correct),
            metrics=(abi.Metric * len(rows))(*rows), metric_count=len(rows)))

    def skip(self) -> None:
        """The slot has no samples in this step."""
        self._work.client._begin_nothing(self.index)
        self.end(0.0, 0)


class Work:
    """One round: compute the gradients of these slots of global batch `step`."""

    def __init__(self, client: Client, work: abi.Work, weights: Tensors, program_state: bytes) -> None:
        self.client = client
        self.step: int = work.step
        self.generation: int = work.generation  # rises with each recovery, for example when the job goes back
        self.slot_count: int = work.slot_count  # of the job
        self.loss_scale: float = work.loss_scale  # compute the gradient of loss_scale * loss
        self.weights = weights  # the step's weights, valid until the next round
        self.updates: int = work.updates  # mode sync: updates of the weights, without skipped steps; else 0
        # Norm of the whole averaged gradient of the step that made these weights, before clipping and without the loss
        # scale. inf: it was not finite; 0.0: version 0, or mode async or bounded.
        self.grad_norm: float = work.gradient_norm
        self.program_state = program_state  # the program's state of this version; b"": none was given yet
        # Jobs with [optimizer] kind = "external", whose program runs the optimizer; in other jobs it is "servers". How the
        # program gets this round's version, before it computes the slots: "current": it has it; "gradient": one
        # optimizer step with `gradients`; "skipped": it equals the version before; "whole": from `weights` and
        # `program_state`, which is b"" if no program has given a version yet.
        self.source: str = SOURCES[work.source]
        # The mean gradient over all samples of the step before, without the loss scale; None: the source is another.
        self.gradients = weights if self.source == "gradient" else None
        self.keep: bool = bool(work.keep)  # the program must give its version, by keep_version(); there are no slots
        self.at_end: bool = bool(work.at_end)  # the version is the job's last one
        self._slots = [work.slots[i] for i in range(work.slot_length)]
        self._over = False

    @property
    def slots(self) -> Iterator[Slot]:
        """The slots to compute, in order. Stops early if the round is over, because the job moved on or went back."""
        for index in self._slots:
            if self._over:
                return
            yield Slot(self, index)

    @property
    def slot_indices(self) -> list[int]:
        """All slots of this process in this round."""
        return self._slots

    def keep_version(self, weights: Mapping[str, Any], state: bytes) -> None:
        """Gives this round's version: the weights by name, and all else that a program needs to go on from them, such as
        the optimizer's state, in any form. All processes must make the same bytes of the same state.

        At most 65520 bytes of state, and 4 bytes for each weight and for each of [optimizer] states.
        """
        self.client._keep(weights, state)

    def _end(self, slot: int, result: abi.Result) -> None:
        try:
            self.client._end(slot, result)
        except Stale:
            self._over = True


class Client(Collectives):
    """Takes part in a job as a worker. It belongs to one thread at a time, and to the process that connected it."""

    def __init__(self, handle: Handle, place: tuple[int, int] | None = None) -> None:
        self._handle, self._place = handle, place
        self._tensors: tuple[Tensor, ...] = ()
        self._index: dict[str, int] = {}
        self._gradients: dict[int, Tensors] = {}  # by address

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with contextlib.suppress(Error):  # the caller must see the block's exception, not this one
            self.leave("it is done" if kind is None else f"{kind.__name__} ended it")

    @property
    def job_file(self) -> str:
        """The job file as canonical TOML."""
        text = ctypes.c_char_p()
        self._handle.call("job_file", text)
        return (text.value or b"").decode()

    @functools.cached_property
    def job(self) -> dict[str, Any]:
        """The job file's sections."""
        return tomllib.loads(self.job_file)

    @property
    def counters(self) -> dict[str, int]:
        """Messages and bytes so far, as capstan_counters in <capstan/capstan.h> names them."""
        counters = abi.Counters()
        self._handle.call("read_counters", counters)
        return {name: getattr(counters, name) for name in abi.COUNTERS}

    def declare(self, tensors: Sequence[Tensor], *, numeric_class: str = "", numeric_fingerprint: int = 0,
                data_fingerprint: int = 0, given: Mapping[str, Any] | None = None) -> None:
        """Declares the model's tensors, in the order of the forward pass and the same on every worker. Call it once.

        numeric_class names what a gradient's bits depend on; the fingerprints are hashes of a fixed probe computed here
        and of the data read here. A worker that differs from the others in one of them is refused.

        `given` has the first weights of each tensor with initial="given", float32 in anything that Tensors takes.
        Every worker brings them. The job takes one worker's and writes them to disk before the first step.
        """
        first = _given(tensors, given or {})
        rows = (abi.Tensor * len(tensors))(*map(_row, tensors))
        self._handle.call("declare", abi.Description(
            tensors=rows, tensor_count=len(rows), numeric_class=text_bytes("the numeric class", numeric_class),
            numeric_fingerprint=numeric_fingerprint, data_fingerprint=data_fingerprint,
            given=ctypes.cast(first, ctypes.c_void_p) if first is not None else None))
        self._tensors = tuple(tensors)
        self._index = {tensor.name: index for index, tensor in enumerate(tensors)}

    def set_hyper_parameters(self, groups: Sequence[HyperParameters]) -> None:
        """How this round's gradients update the weights: one entry for each group of the tensors.

        All workers of a step must give the same values, so compute them from the step only. Call it before a gradient
        of the round is final; later rounds keep the values. If tensors have groups, this call must come before the
        first gradient.
        """
        rows = (abi.HyperParameters * len(groups))(*map(_group_row, groups))
        self._handle.call("set_hyper_parameters", rows, len(rows))

    def set_clip_norm(self, max_norm: float | None) -> None:
        """Sets the largest norm of a step's whole averaged gradient, as clip_grad_norm_ of PyTorch does. The servers know
        the exact norm over all processes, and redo the step's update if it is larger. 0 or None: the job file's
        optimizer.clip_norm.

        The limit goes with each slot that ends after the call, also in later rounds, so it may be set after the
        backward pass. All slots of a step must bring the same one; otherwise the job stops and names two that differ.
        Mode sync only.
        """
        self._handle.call("set_clip_norm", float(max_norm or 0.0))

    def set_clip_value(self, max_value: float | None) -> None:
        """Sets the largest magnitude of each element of a step's averaged gradient, as clip_grad_value_ of PyTorch does.
        0 or None: no limit. Rules are as for set_clip_norm(). A step is clipped by norm or by value, and not by both.
        """
        self._handle.call("set_clip_value", float(max_value or 0.0))

    def set_program_state(self, state: bytes) -> None:
        """Gives the program's state after this round's step, at most 64 KiB. The job stores it with the next version of
        the weights and in snapshots, and returns it as Work.program_state, also after it went back or was resumed.

        It is sent with those slots of the round that end after this call. All slots of a step that bring a state must
        bring the same one, so compute it from Work.program_state and the step only. If no slot brings one, the previous
        version's state stays. Mode sync only.
        """
        self._handle.call("set_program_state", state, len(state))

    def work(self, meanwhile: Callable[[], None] = lambda: None, *, follows: bool = True) -> Iterator[Work]:
        """Yields rounds until the job is done, each with its weights in place. The iteration ends when the last
        snapshot and the final weights are written.

        Steps may be repeated, also earlier ones. If every gradient depends only on (seed, step, slot) and the weights,
        the job's result does not depend on which worker computes it. Waits as long as the job lives, and calls
        `meanwhile` regularly.

        In a job with [optimizer] kind = "external" the program must make each version that it gets (Work.source), also
        in rounds without slots. With follows=False it gets none of these, except the last version; when it gets slots
        again it takes a whole version, for which the job waits.
        """
        while (work := self._next_work(meanwhile)) is not None:
            if not (follows or work.slot_length or work.keep or work.at_end or not work.source):
                continue
            try:
                patiently(lambda seconds: self._handle.call("wait_weights", 0, len(self._tensors) - 1, seconds))
                if work.source and not work.keep:  # from here on the job counts on the program's having the version
                    self._handle.call("take_version")
            except Stale:
                continue
            yield Work(self, work, self._weights, self._program_state())

    def barrier(self, seconds: float | None = None) -> None:
        """Waits until every worker of the job has called it. In a job with ranks these are all ranks, otherwise all
        current workers and at least cluster.min_workers.

        Timeout names the missing workers; this worker still counts as waiting, and the next call continues the same
        barrier. Stale: the job is done.
        """
        patiently(lambda left: self._handle.call("barrier", left), seconds)

    def leave(self, reason: str = "it was asked to") -> None:
        """Leaves the job; other workers take over its slots."""
        self._handle.call("leave", text_bytes("the reason", reason))

    @functools.cached_property
    def _weights(self) -> Tensors:
        return Tensors(self._tensors, self._weights_address(), self._handle, writable=False)

    @functools.cached_property
    def weights_in_place(self) -> Tensors:
        """The memory of Work.weights for frameworks whose tensors cannot be read-only. The next round overwrites what
        is written there."""
        return Tensors(self._tensors, self._weights_address(), self._handle, writable=True)

    def _weights_address(self) -> int:
        address = ctypes.c_void_p()
        self._handle.call("weights", address)
        assert address.value is not None
        return address.value

    def _program_state(self) -> bytes:
        address, size = ctypes.c_void_p(), ctypes.c_size_t()
        self._handle.call("program_state", address, size)
        return ctypes.string_at(address, size.value) if size.value else b""

    def _next_work(self, meanwhile: Callable[[], None]) -> abi.Work | None:
        work = abi.Work()
        patiently(lambda seconds: self._handle.call("next_work", seconds, work), meanwhile=meanwhile)
        return None if work.done else work

    def _begin(self, slot: int, samples: int) -> Tensors:
        address = ctypes.c_void_p()
        self._handle.call("begin_slot", slot, samples, address)
        assert address.value is not None
        if address.value not in self._gradients:  # buffers come from a pool and are reused
            self._gradients[address.value] = Tensors(self._tensors, address.value, self._handle, writable=True)
        return self._gradients[address.value]

    def _keep(self, weights: Mapping[str, Any], state: bytes) -> None:
        flat = (ctypes.c_float * sum(tensor.element_count for tensor in self._tensors))()
        views = Tensors(self._tensors, ctypes.addressof(flat), flat, writable=True)
        for tensor in self._tensors:
            if tensor.name not in weights:
                raise Invalid(f'keep_version() lacks tensor "{tensor.name}"')
            views[tensor.name] = weights[tensor.name]
        self._handle.call("keep_version", ctypes.addressof(flat), state, len(state))

    def _begin_nothing(self, slot: int) -> None:
        self._handle.call("begin_slot", slot, 0, ctypes.c_void_p())

    def _ready(self, name: str) -> None:
        self._handle.call("gradient_ready", self._index_of(name), self._index_of(name))

    def _ready_from(self, name: str, element: int) -> None:
        if not 0 <= element < 1 << 63:
            raise Invalid(f'tensor "{name}" has no element {element}')
        self._handle.call("gradient_ready_from", self._index_of(name), element)

    def _index_of(self, name: str) -> int:
        if name not in self._index:
            raise Invalid(f'"{name}" is no tensor that was declared')
        return self._index[name]

    def _end(self, slot: int, result: abi.Result) -> None:
        self._handle.call("end_slot", slot, result)


def coordinator_address(given: str | None) -> str:
    """The given address, or else $CAPSTAN_COORDINATOR."""
    address = given if given is not None else os.environ.get("CAPSTAN_COORDINATOR")
    if not address and "CAPSTAN_BROKER" in os.environ:
        raise Invalid("capstan run makes a job from what trainer.prepare() of capstan.torch is given; a program that calls "
                      "capstan.connect() needs a job file: capstan launch job.toml -- python3 PROGRAM")
    if not address:
        raise Invalid("no coordinator is named: set CAPSTAN_COORDINATOR to the address that capstan launch says, or pass it "
                      "to connect(); nothing is trained without one")
    return address


def connect(coordinator: str | None = None, worker: str | None = None, *, rank: int | None = None, ranks: int = 0,
            join_seconds: float = 60.0, on_notice: Callable[[str], object] = log.warning,
            key_file: str | None = None) -> Client:
    """Asks the coordinator at "host:port" or "ipc:///path", or else at $CAPSTAN_COORDINATOR, for its job. An address with a
    key, "host:port#KEY", needs a file with this process's own: `key_file`, or $CAPSTAN_KEY_FILE.

    A newer process with this `worker` name, or $CAPSTAN_WORKER, replaces an older one. The client's thread calls
    `on_notice` with lines that say which peers the client waits for, and for how long.

    `rank` counts from 0; `ranks` is the job's number of slots. With a rank, only this worker computes slot `rank`, and
    the job waits for it when it is lost. Either all workers of a job have a rank or none has. Its name is then "rank-N"
    unless `worker` gives one, so that a process started in its place replaces it.
    """
    if (rank is None) != (ranks == 0) or not 0 <= (rank or 0) < max(ranks, 1):
        raise Invalid(f"rank {rank} of {ranks}: ranks are counted from 0 and below their number, and come with it")
    address = coordinator_address(coordinator)
    own = own_name() if rank is None else f"rank-{rank}"
    name = worker if worker is not None else os.environ.get("CAPSTAN_WORKER", own)
    place = (rank, ranks) if rank is not None else Identity.of_launch()
    return Client(Handle(abi.Options(
        coordinator=text_bytes("the coordinator", address), worker=text_bytes("the worker's name", name),
        join_seconds=join_seconds, on_notice=_notice(on_notice), rank=0 if rank is None else rank + 1, ranks=ranks,
        key_file=key_file_bytes(key_file))), place)
