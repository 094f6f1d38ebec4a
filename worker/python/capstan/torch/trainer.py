"""The trainer: a script's model, optimizer, loader and scheduler as a worker of a job."""
from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader

import capstan.client
from capstan.client import Client, Slot, Work
from capstan.errors import Error, Invalid, Rewound, Unsupported
from capstan.reader import Reader, Version
from capstan.tensors import Tensor, Tensors
from capstan.torch.batches import Fetcher, Piece, key_of, seed_generators
from capstan.torch.parameters import Parameter, buffer_of, copied, digest_of
from capstan.torch.rules import Rule, rule_of
from capstan.torch.schedule import Schedule
from capstan.torch.staging import Staging

_log = logging.getLogger("capstan")


def connect(coordinator: str | None = None, worker: str | None = None, *, rank: int | None = None, ranks: int = 0,
            join_seconds: float = 60.0,
            on_notice: Callable[[str], object] = _log.warning) -> Trainer:
    """Asks the coordinator at "host:port", or at $CAPSTAN_COORDINATOR, for its job.

    A newer process with this `worker` name, or $CAPSTAN_WORKER, takes over from an older one. With `rank`, from 0, of
    `ranks` this process has slot `rank` for itself, and the job waits for it when it is lost. Without a coordinator
    nothing is trained.
    """
    address = coordinator if coordinator is not None else os.environ.get("CAPSTAN_COORDINATOR")
    if not address:
        raise Invalid('no coordinator is named: pass connect("host:port"), as capstan launch says it, or set '
                      "CAPSTAN_COORDINATOR; nothing is trained without one")
    worker = worker if worker is not None else os.environ.get("CAPSTAN_WORKER")
    return Trainer(capstan.client.connect(address, worker, rank=rank, ranks=ranks, join_seconds=join_seconds,
                                          on_notice=on_notice), address)


class Trainer:
    """A worker of a job. It belongs to one thread at a time, and to the process that connected it."""

    def __init__(self, client: Client, address: str) -> None:
        self.client = client
        self._address = address
        self._job = client.job
        self._parameters: list[Parameter] = []
        self._staging = Staging([])  # of their gradients
        self._taking = threading.Lock()  # backward() has a thread for each device
        self._optimizer: torch.optim.Optimizer | None = None
        self._rule: Rule | None = None
        self._schedule: Schedule | None = None
        self._fetcher: Fetcher | None = None
        self._rounds: Iterator[Work] = iter(())
        self._work: Work | None = None  # the round under way
        self._rest: Iterator[Slot] = iter(())  # its slots that have not begun
        self._rates_told = False  # the hyper-parameters of this round
        self._slot: Slot | None = None  # the slot under way
        self._piece: Piece | None = None  # of it, which the prepared loader has handed out, until its backward()
        self._pieces_to_come = False  # of it: gradients are not final yet
        self._in_backward = False  # gradients are the slot's
        self._refusal: Exception | None = None  # of a gradient
        self._failed = False  # a slot's gradients are half there, and have left in part
        self._gradient: Tensors | None = None  # the slot's; None: backward() has not begun it
        self._slot_samples = 0
        self._computed = 0  # samples of the slot whose gradients are in
        self._loss_sum = 0.0
        self._metrics: dict[str, tuple[float, float]] = {}  # of the slot
        self._reader: Reader | None = None  # for the last version
        self._replays = False  # whoever asks for samples follows the job where it goes
        self.done = False  # the job's last step is taken

    # ---- what a script calls ----------------------------------------------------------------------------------------

    def prepare(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader[Any] | None = None,
                scheduler: Any = None) -> Any:
        """Makes them the job's: returns the same model, optimizer and scheduler, and a loader of the job's batches.

        The weights are the job's from now on. The first process to come gives the first ones, and they are on the
        servers' disks before the first step. optimizer.step() pushes; scheduler.step() does nothing, the scheduler
        follows the committed steps. Without a loader, ask for work with slots(), or take the samples where you like:
        then a job that has to go back raises Rewound from step().
        """
        if self._optimizer is not None:
            raise Invalid("prepare() comes once; a second model is a second job with a trainer of its own")
        self._rule = rule_of(optimizer, self._job["optimizer"]["kind"])
        self._optimizer = optimizer
        if loader is not None:
            self._replays = True
            self._fetcher = Fetcher(loader, seed=self._job["job"]["seed"], steps=self._job["job"]["steps"],
                                    global_batch=self._job["job"]["global_batch"], slots=self._job["job"]["slots"])
        if scheduler is not None:
            self._schedule = Schedule(scheduler, optimizer)
        elif hasattr(optimizer.step, "_with_counter") or hasattr(optimizer.step, "_wrapped_by_lr_sched"):
            raise Invalid("the optimizer has a scheduler, which would not follow the job's steps: give it to prepare()")
        self._declare(model)
        self._staging = Staging(self._parameters)
        self._replace_calls(optimizer)
        self._say_topology()
        for entry in self._parameters:
            entry.call_when_ready(self._gradient_is_ready)
        self._rounds = self.client.work()
        self._next_round()
        wanted = (model, optimizer, None if loader is None else Batches(self), scheduler)
        return tuple(item for item in wanted if item is not None)

    def slots(self) -> Iterator[Slot]:
        """The slots to compute until the job is done: for each, samples that follow from slot.key alone, then
        backward() and step(). Steps may come again, also earlier ones."""
        self._must_be_prepared()
        self._replays = True
        self._next_slot_or_round()
        while (slot := self._slot) is not None:
            seed_generators(key_of("compute", *slot.key, 0))
            yield slot
            if self._slot is slot:
                raise Invalid(f"slot {slot.index} was handed out, and step() has not ended it")

    def backward(self, loss: torch.Tensor, samples: int | None = None) -> None:
        """loss.backward(), and gradients leave as they become final. `loss` is a mean over `samples` samples, which
        the prepared loader knows by itself."""
        self._must_have_a_slot()
        count = self._samples_of(samples)
        self._must_have_no_gradients()
        if self._gradient is None:
            self._begin(count if self._piece is None else self._piece.slot_samples)
        self._piece = None
        scale = self.loss_scale * count / self._slot_samples
        with self._all_or_nothing():
            self._in_backward = True
            try:
                torch.autograd.backward([loss if scale == 1 else torch.mul(loss, scale)])
            finally:
                self._in_backward = False
            if self._refusal is not None:
                raise self._refusal
            self._put_arrived(wait=True)
            if not self._pieces_to_come:
                self._send_the_rest()
        self._computed += count
        self._loss_sum += float(loss.detach()) * count

    @contextlib.contextmanager
    def accumulate(self, samples: int) -> Iterator[None]:
        """The calls of backward() inside are of pieces of one slot, which has `samples` samples in all. A prepared
        loader does it by itself: it hands a slot out in pieces of its batch_size."""
        if self._fetcher is not None:
            raise Invalid("a prepared loader accumulates by itself: give it a batch_size below global_batch / slots")
        self._must_have_a_slot()
        if self._gradient is not None:
            raise Invalid("accumulate() comes once before each step(), and before backward()")
        self._begin(samples)
        with self._all_or_nothing():
            self._pieces_to_come = True
            yield
            self._pieces_to_come = False
            if self._computed != samples:
                raise Invalid(f"accumulate({samples}) saw gradients of {self._computed} samples")
            self._send_the_rest()

    def step(self) -> bool:
        """What optimizer.step() does now: ends the slot. When that was the round's last one, the next round's weights
        are in place on return; gradients may be overwritten then, and not before. False: the job is done."""
        self._must_be_prepared()
        self._must_be_whole()
        if self._piece is not None or self._slot is None or self._gradient is None:
            raise Invalid("step() comes after backward()")
        if self._pieces_to_come:
            return True
        for entry in self._parameters:
            entry.clear_gradient()
        slot, self._slot, self._gradient = self._slot, None, None
        self._ask_for_the_last_version()
        self._keep_schedule(slot)
        slot.end(self._loss_sum, predictions=self._computed, metrics=self._metrics)
        self._next_slot_or_round()
        return not self.done

    def log(self, metrics: Mapping[str, tuple[Any, Any]]) -> None:
        """Pairs (sum, weight) by name, between backward() and step(): the job shows sum / weight over all slots of the
        step. What several pieces of a slot say of one name is added up."""
        if self._slot is None or self._gradient is None:
            raise Invalid("log() comes between backward() and step()")
        for name, (total, weight) in metrics.items():
            sums = self._metrics.get(name, (0.0, 0.0))
            self._metrics[name] = sums[0] + float(total), sums[1] + float(weight)

    def barrier(self, seconds: float | None = None) -> None:
        """Until every worker of the job has called it; see Client.barrier."""
        self.client.barrier(seconds)

    def close(self, reason: str = "the script is done") -> None:
        """Leaves the job in good order; others take over its slots."""
        self.client.leave(reason)

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with contextlib.suppress(Error):  # what ended the block is what its caller must hear
            self.close("the script is done" if kind is None else f"{kind.__name__} ended it")

    @property
    def global_step(self) -> int:
        """The step under way: so many are committed."""
        return self._work.step if self._work is not None else int(self._job["job"]["steps"])

    @property
    def loss_scale(self) -> float:
        """What the loss of this round is multiplied with; 1 where the job has none."""
        return self._work.loss_scale if self._work is not None else 1.0

    # ---- beginning --------------------------------------------------------------------------------------------------

    def _declare(self, model: torch.nn.Module) -> None:
        assert self._optimizer is not None
        groups = {id(parameter): index for index, group in enumerate(self._optimizer.param_groups)
                  for parameter in group["params"]}
        for name, module in model.named_modules():
            if getattr(module, "track_running_stats", False):
                raise Unsupported(f'"{name}" ({type(module).__name__}) keeps running statistics, which the job would '
                                  "lose; make it with track_running_stats=False, or use a norm without them")
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                self._check_parameter(name, parameter, groups)
                self._parameters.append(Parameter(name, parameter, len(self._parameters), groups.pop(id(parameter))))
        if groups:
            raise Invalid(f"the optimizer has {len(groups)} parameters that are not the model's, or are frozen")
        if not self._parameters:
            raise Invalid("the model has no parameter to train")
        tensors = [Tensor(entry.name, tuple(entry.parameter.shape), initial="given", group=entry.group + 1)
                   for entry in self._parameters]
        # What is not trained has to be the same everywhere.
        frozen = digest_of((name, tensor) for name, tensor in [*model.named_parameters(), *model.named_buffers()]
                            if not tensor.requires_grad)
        first = {entry.name: buffer_of(entry.parameter) for entry in self._parameters}
        self.client.declare(
            tensors, given={name: memory for name, (_, memory) in first.items()},
            numeric_class=f"torch {torch.__version__}, {torch.get_num_threads()} threads, "
                          f"{self._parameters[0].parameter.device.type}",
            numeric_fingerprint=key_of(torch.__config__.show()),  # type: ignore[no-untyped-call]
            data_fingerprint=key_of(frozen, self._fetcher and self._fetcher.fingerprint))

    @staticmethod
    def _check_parameter(name: str, parameter: torch.nn.Parameter, groups: dict[int, int]) -> None:
        if id(parameter) not in groups:
            raise Invalid(f'parameter "{name}" is in no group of the optimizer: add it, or freeze it with '
                          "requires_grad_(False)")
        if parameter.dtype != torch.float32:
            raise Unsupported(f'parameter "{name}" is of {parameter.dtype}; the servers keep float32: leave the model '
                              "in float32 and compute in less with torch.autocast")
        if not parameter.is_contiguous():
            raise Unsupported(f'parameter "{name}" is not contiguous (strides {parameter.stride()}); make it so before '
                              "prepare()")

    def _replace_calls(self, optimizer: torch.optim.Optimizer) -> None:
        clear, state_dict = optimizer.zero_grad, optimizer.state_dict

        def step(closure: Any = None) -> None:
            if closure is not None:
                raise Unsupported("step(closure): the servers run the optimizer and call nothing back")
            self.step()

        def zero_grad(set_to_none: bool = True) -> None:
            clear(set_to_none=True)  # one that is zero would be a gradient that no slot asked for

        def state_dict_of_servers() -> dict[str, Any]:
            if not self.done:
                with Reader(self._address) as reader:
                    self._take_state(reader.pull(optimizer_state=True))
            return state_dict()

        def load_state_dict(_: object) -> None:
            raise Unsupported("the servers have the optimizer's state: a job goes on from its own snapshots, with "
                              "capstan launch --resume")

        def add_param_group(_: object) -> None:
            raise Unsupported("the job's tensors and their groups are declared: give prepare() all of them")

        # By which schedulers know that steps are counted, before torch 2.5 and since.
        step._with_counter = step._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
        optimizer.step = step  # type: ignore[method-assign]
        optimizer.zero_grad = zero_grad  # type: ignore[method-assign]
        optimizer.state_dict = state_dict_of_servers  # type: ignore[method-assign]
        optimizer.load_state_dict = load_state_dict  # type: ignore[method-assign,assignment]
        optimizer.add_param_group = add_param_group  # type: ignore[method-assign,assignment]
        optimizer._step_count = optimizer._opt_called = 1  # type: ignore[attr-defined]

    def _say_topology(self) -> None:
        job = self._job["job"]
        replay = "replayable" if self._fetcher is not None else "not replayable (no loader was prepared)"
        elements = sum(entry.parameter.numel() for entry in self._parameters)
        print(f'capstan: job "{job["name"]}" at {self._address}: {job["mode"]}, {job["steps"]} steps, global batch '
              f'{job["global_batch"]} in {job["slots"]} slots, {self._job["cluster"]["servers"]} servers, '
              f"{len(self._parameters)} tensors with {elements} parameters, {replay}", file=sys.stderr)

    # ---- rounds and slots -------------------------------------------------------------------------------------------

    def _next_round(self) -> None:
        """Waits for work and its weights, and puts them in place."""
        before, self._work = self._work, next(self._rounds, None)
        self._rates_told = False
        if self._work is None:
            self.done = True
            self._rest = iter(())
            if self._schedule is not None:
                self._schedule.go_to(self._job["job"]["steps"], b"")
            self._take_the_last_version()
            return
        self._rest = self._work.slots
        if self._schedule is not None:
            self._schedule.go_to(self._work.step, self._work.program_state)
        with torch.no_grad():
            for entry in self._parameters:
                weights = entry.view(self.client.weights_in_place)
                if entry.parameter.device.type != "cpu":
                    entry.parameter.copy_(weights)
                elif entry.parameter.data_ptr() != weights.data_ptr():
                    entry.parameter.data = weights
        if before is not None and before.generation != self._work.generation and self._work.step <= before.step:
            self._went_back()

    def _went_back(self) -> None:
        assert self._work is not None
        _log.warning("the job goes back to step %d", self._work.step)
        if not self._replays:
            raise Rewound(f"the job went back to step {self._work.step}, and this loop's samples do not: start the "
                          "process again, or take them from a prepared loader or from slots()")

    def _next_slot_or_round(self) -> None:
        """The next slot is begun, unless the job is done."""
        while self._slot is None and not self.done:
            self._slot = next(self._rest, None)
            if self._slot is None:
                self._next_round()
        self._slot_samples = self._computed = 0
        self._loss_sum = 0.0
        self._metrics = {}

    def _batches(self) -> Iterator[Any]:
        assert self._fetcher is not None
        if self._gradient is not None:
            raise Invalid("a loop was left between backward() and the step() that ends its slot")
        self._next_slot_or_round()
        while (slot := self._slot) is not None:
            assert self._work is not None
            for piece in self._fetcher.plan.pieces(self._work.step, slot.index):
                if not piece.samples:
                    self._slot = None
                    self._tell_rates()
                    self._ask_for_the_last_version()
                    self._keep_schedule(slot)
                    slot.skip()
                    self._next_slot_or_round()
                    break
                batch = self._fetcher.fetch(piece, self._work.slot_indices)
                seed_generators(key_of("compute", *slot.key, piece.index))
                self._piece, self._pieces_to_come = piece, not piece.last
                yield batch
                self._must_be_whole()
                if self._piece is piece or (self._slot is slot and piece.last):
                    raise Invalid("the loop asks for a batch, and backward() and step() of the last one are missing")

    def _must_be_prepared(self) -> None:
        if self._optimizer is None:
            raise Invalid("prepare(model, optimizer) comes first")

    def _must_be_whole(self) -> None:
        if self._failed:
            raise Invalid("backward() was left by an exception, and gradients of its slot have left: start the process "
                          "again; the job waits for it, or gives the slot to another one")

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Of a slot's gradients: after an exception it cannot be ended."""
        try:
            yield
        except BaseException:
            self._failed = True
            raise

    def _must_have_a_slot(self) -> None:
        self._must_be_prepared()
        self._must_be_whole()
        if self._slot is None:
            self._next_slot_or_round()
        if self.done:
            raise Invalid("the job is done: there is nothing more to compute (Trainer.done says so)")

    def _begin(self, samples: int) -> None:
        assert self._slot is not None
        for entry in self._parameters:
            entry.has_gradient = entry.final = False
        self._tell_rates()
        self._slot_samples = samples
        self._gradient = self._slot.begin(samples)

    def _tell_rates(self) -> None:
        """Once in a round, before its first slot."""
        assert self._optimizer is not None and self._rule is not None
        if not self._rates_told:
            groups = [self._rule.hyper_parameters(group) for group in self._optimizer.param_groups]
            if self._schedule is not None and self._work is not None:
                self._schedule.check_told(self._work.step, groups)
            self.client.set_hyper_parameters(groups)
            self._rates_told = True

    def _keep_schedule(self, slot: Slot) -> None:
        """With the step, where there are steps: the job keeps what the schedule is after it. The round's last slot says
        it, since until then the program may look at what the schedule is now; the job's last slot is always one."""
        if self._schedule is None or self._work is None or self._job["job"]["mode"] != "sync":
            return
        if slot.index == self._work.slot_indices[-1]:
            self.client.set_program_state(self._schedule.after())

    def _must_have_no_gradients(self) -> None:
        for entry in self._parameters:
            if entry.parameter.grad is not None:
                raise Invalid(f'parameter "{entry.name}" has a gradient already, which no slot asked for: call '
                              "optimizer.zero_grad() before backward()")

    def _samples_of(self, samples: int | None) -> int:
        if self._piece is not None:
            return len(self._piece.samples)
        if self._fetcher is not None:
            raise Invalid("backward() comes once for each batch of the prepared loader: add the losses, and call it "
                          "with their sum")
        if samples is None or samples < 1:
            raise Invalid("backward(loss, samples=...): over how many samples is the loss a mean? A prepared loader "
                          "knows by itself")
        if self._gradient is not None and not self._pieces_to_come:
            raise Invalid("backward() comes once before each step(); put several in accumulate(samples)")
        return samples

    # ---- the end ----------------------------------------------------------------------------------------------------

    def _ask_for_the_last_version(self) -> None:
        """Servers that end with the job wait for those who follow it: from before its last step on."""
        assert self._work is not None
        if self._work.step + 1 < self._job["job"]["steps"]:
            return
        if self._reader is None:
            self._reader = Reader(self._address)
        self._reader.progress()

    def _take_the_last_version(self) -> None:
        """The model has the weights after the last step, and the optimizer its state."""
        reader, self._reader = self._reader, None
        try:
            version = reader.pull(newer_than=self._job["job"]["steps"] - 1, optimizer_state=True) if reader else None
        except Error as error:
            version = None
            _log.warning("%s", error)
        if version is None:
            _log.warning("the job ended before its last weights could be read; the model has those of the last step "
                         "that this process computed in (none: its own first ones), final.safetensors in the run "
                         "directory has the last")
            return
        with torch.no_grad():
            for entry in self._parameters:
                entry.parameter.copy_(copied(version.weights[entry.name], entry.parameter))
        self._take_state(version)
        if reader is not None:
            reader.close()

    def _take_state(self, version: Version | None) -> None:
        """Into the optimizer, as torch keeps it: "step" counts updates, in async and bounded those of the block that has
        the fewest."""
        assert self._optimizer is not None and self._rule is not None
        if version is None:
            return
        for entry in self._parameters:
            state: dict[str, Any] = {name: copied(tensors[entry.name], entry.parameter)
                                     for name, tensors in version.state.items()}
            if self._rule.counts_steps:
                state["step"] = torch.tensor(float(version.updates))
            self._optimizer.state[entry.parameter] = state

    # ---- gradients --------------------------------------------------------------------------------------------------

    def _gradient_is_ready(self, entry: Parameter) -> None:
        with self._taking:
            if not self._in_backward or self._refusal is not None:
                return
            try:
                self._take(entry)
            except Exception as error:  # raised by backward(): after one from here torch 1.13 may not end
                self._refusal = error

    def _take(self, entry: Parameter) -> None:
        """The gradient goes into the client's memory, and its own is free at once."""
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
        """What was on its way from a GPU."""
        for entry, gradient in self._staging.arrived(wait=wait):
            self._put(entry, gradient)

    def _put(self, entry: Parameter, gradient: torch.Tensor) -> None:
        assert self._gradient is not None
        memory = entry.view(self._gradient)
        if entry.has_gradient:
            memory.add_(gradient.to(memory.device))
        else:
            memory.copy_(gradient)
        entry.has_gradient = True
        if not self._pieces_to_come:
            self._send(entry)

    def _send(self, entry: Parameter) -> None:
        assert self._slot is not None
        if not entry.has_gradient:
            raise Invalid(f'parameter "{entry.name}" has no gradient at step {self.global_step}: the loss does not '
                          "depend on it; freeze it with requires_grad_(False)")
        entry.final = True
        self._slot.ready(entry.name)

    def _send_the_rest(self) -> None:
        for entry in self._parameters:
            if not entry.final:
                self._send(entry)
        for entry in self._parameters:
            entry.hide_gradient()


class Batches:
    """The job's batches for this process, until the job is done: a slot's samples, in pieces of the batch size.

    It has no len(): how many batches this process gets follows from who else takes part and who is lost on the way.
    What is known before is `steps_per_epoch`, of all processes together.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    @property
    def epoch(self) -> int:
        """How often all samples were seen."""
        return self._trainer.global_step // self.steps_per_epoch

    @property
    def steps_per_epoch(self) -> int:
        assert self._trainer._fetcher is not None
        return self._trainer._fetcher.plan.steps_per_epoch

    def __iter__(self) -> Iterator[Any]:
        yield from self._trainer._batches()
