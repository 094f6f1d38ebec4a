"""ExternalTrainer: the trainer of a job with [optimizer] kind = "external", whose optimizer stays in the script.

The servers add up gradients. After the round's last slot, loss.backward() waits for the mean gradient of the step and puts it
into the parameters' `grad`. Clipping, optimizer.step() and scheduler.step() then run as in plain PyTorch, in every process
with the same numbers. After a round's earlier slots optimizer.step() and
scheduler.step() do nothing.
"""
from __future__ import annotations

import atexit
import contextlib
import copy
import inspect
import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from capstan.client import Client, Work
from capstan.errors import Error, Invalid, Unreachable, Unsupported
from capstan.reader import Reader
from capstan.torch import no_sync
from capstan.torch.arguments import Arguments
from capstan.torch.declaration import declare
from capstan.torch.computing import Computing
from capstan.torch.last_version import TOO_LATE
from capstan.torch.optimizer_calls import Step
from capstan.torch.parameters import Parameter
from capstan.torch.passes import Batches
from capstan.torch.program_state import pack, unpack
from capstan.torch.rounds import Rounds
from capstan.torch.rules import has_stepped
from capstan.torch.schedule import refuse_unknown
from capstan.torch.statistics import Wishes
from capstan.torch.trainer import Trainer, leave_at_exit
from capstan.torch.values import Values
from capstan.torch.weighing import Weighing

_PLAIN = (type(None), bool, int, float, str)


class ScriptState:
    """The state of a script's optimizer and scheduler, which its process needs besides the weights."""

    def __init__(self, optimizer: torch.optim.Optimizer, scheduler: Any, device: torch.device) -> None:
        self._optimizer, self._scheduler, self._device = optimizer, scheduler, device
        self._load_schedule = scheduler.load_state_dict if scheduler is not None else None
        self._parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self._first = self.pack()

    def pack(self) -> bytes:
        name = type(self._optimizer).__name__
        places = {id(parameter): index for index, parameter in enumerate(self._parameters)}
        for key in self._optimizer.state:
            if id(key) not in places:
                raise Unsupported(f"{name}.state has an entry for {key!r:.60}, which is no parameter, and the job could "
                                  "not give it to another process")
        state = {places[id(key)]: value for key, value in self._optimizer.state.items()}
        groups = [{key: value for key, value in group.items() if key != "params"}
                  for group in self._optimizer.param_groups]
        # Some optimizers count in attributes, which state_dict() leaves out.
        numbers = {key: value for key, value in vars(self._optimizer).items()
                   if isinstance(value, (*_PLAIN, torch.Tensor))}
        schedule = self._scheduler.state_dict() if self._scheduler is not None else None
        return pack({"state": dict(sorted(state.items())), "groups": groups, "numbers": numbers, "schedule": schedule},
                    name, self._device)

    def load(self, kept: bytes) -> None:
        """b"": the state with which the script began."""
        tree = unpack(kept or self._first, self._device)
        self._optimizer.state.clear()
        for index, value in tree["state"].items():
            self._optimizer.state[self._parameters[index]] = value
        for group, values in zip(self._optimizer.param_groups, tree["groups"]):
            group.update(values)
        vars(self._optimizer).update(tree["numbers"])
        if self._load_schedule is not None:
            self._load_schedule(tree["schedule"])


class ScriptStep(Step):
    """Replaces optimizer.step of a script that runs its own optimizer."""

    def __call__(self, closure: Any = None) -> None:
        if closure is not None:
            raise Unsupported("step(closure): a step of a job has one gradient; write trainer.backward(loss), then "
                              "optimizer.step() without a closure")
        super().__call__()


class Update:
    """The step that the script makes with a round's mean gradient: optimizer.step(), and scheduler.step() after it."""

    def __init__(self, optimizer: torch.optim.Optimizer, scheduler: Any) -> None:
        self.optimizer = optimizer
        self._step: Callable[[], object] = optimizer.step
        self.is_due = False  # the parameters have the mean gradient, and optimizer.step() has not been called
        self._made = False  # it was called, and the script has not computed since
        self.acts = False  # the scheduler acts right now; only then may torch's code read the optimizer's step()
        self._act: Callable[..., object] | None = scheduler.step if scheduler is not None else None
        if scheduler is not None:
            scheduler.step = self._scheduler_steps

    def make(self) -> bool:
        """Runs the script's optimizer if it is due. Returns whether it was."""
        if not self.is_due:
            return False
        self._step()
        self.is_due, self._made = False, True
        return True

    def loop_goes_on(self) -> None:
        """The script asks for a batch, or computes."""
        if self.is_due:
            raise Invalid("optimizer.step() is missing: the round's mean gradient is in the parameters, and the next "
                          "batch needs the weights after it")

    def slot_begins(self) -> None:
        """A scheduler that acts from now on acts after another update."""
        self._made = False

    def _scheduler_steps(self, *arguments: Any, **named: Any) -> None:
        if self._made and self._act is not None:
            self.acts = True
            self._act(*arguments, **named)
            self.acts = False


class ExternalRounds(Rounds):
    """Rounds in which the script makes each version itself. `keep` gives the newest one to the job."""

    def __init__(self, begins: Callable[[Work, Work | None], None], ends: Callable[[], None],
                 waits: Callable[[], None], keep: Callable[[Work], None]) -> None:
        super().__init__(begins, ends, waits)
        self._keep = keep

    def _begin(self, client: Client) -> Iterator[Work]:
        for work in client.work(self._waits, follows=False):
            if work.keep:
                self._keep(work)
            else:
                yield work

    def go_on(self) -> None:
        """Moves to the round's next slot, or to the next round; that one's slots come when the script asks for them."""
        self.slot = next(self._rest, None)
        if self.slot is None:
            self._next_round()


class LastWeights:
    """Reads the job's last weights for a process that did not make them. The job's end waits for readers that have asked
    within its lease."""

    def __init__(self, reader: Reader, job: dict[str, Any]) -> None:
        self._reader, self._steps = reader, int(job["job"]["steps"])
        self._reader.progress()

    def go_on_asking(self) -> None:
        with contextlib.suppress(Error):  # if the coordinator is unreachable, the client reports it
            self._reader.progress(0)

    def take(self, values: Values) -> None:
        try:
            version = self._reader.pull(newer_than=self._steps - 1)
        except Error as error:
            raise Unreachable(f"{TOO_LATE}: {error}") from error
        if version is None:
            raise Unreachable(TOO_LATE)
        values.take(version.weights, self._steps)

    def close(self) -> None:
        self._reader.close()


def _refuse_loading(optimizer: torch.optim.Optimizer, scheduler: Any) -> None:
    """The state of optimizer and scheduler is the job's from now on."""
    def load_state_dict(_: object) -> None:
        raise Unsupported("the job keeps the state of optimizer and scheduler: load it before prepare(), or go on from the "
                          "job's snapshots, with capstan launch --resume")

    def add_param_group(_: object) -> None:
        raise Unsupported("the job's tensors are declared: give prepare() all of them")

    optimizer.load_state_dict = load_state_dict  # type: ignore[method-assign,assignment]
    optimizer.add_param_group = add_param_group  # type: ignore[method-assign,assignment]
    if scheduler is not None:
        scheduler.load_state_dict = load_state_dict


def _refuse(optimizer: torch.optim.Optimizer, scheduler: Any, scaler: Any) -> None:
    """Refuses what the job could not give to another process, or what needs more than one backward()."""
    name = type(optimizer).__name__
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is closure.empty:
        raise Unsupported(f"{name}.step() wants a closure, which computes losses again and again in one step, and a step of "
                          "a job has one gradient: take an optimizer whose step() runs without one")
    has_scheduler = hasattr(optimizer.step, "_with_counter") or hasattr(optimizer.step, "_wrapped_by_lr_sched")
    if scheduler is None and has_scheduler:
        raise Invalid("the optimizer has a scheduler, which would count this process's slots, and not the job's steps: "
                      "give it to prepare()")
    if scaler is not None and scaler.is_enabled():
        raise Unsupported("a GradScaler that is on has a scale of this process alone, and the gradients of a step are added "
                          'up: switch it off, GradScaler(enabled=False), or take an optimizer that the servers run, with '
                          'worker.precision = "fp16"')
    refuse_unknown(optimizer)
    if any(has_stepped(state) for state in optimizer.state.values()):
        raise Unsupported(f"{name} has taken steps already, and only this process has its state: give prepare() a fresh "
                          "one; a job goes on from its own snapshots, with capstan launch --resume")


class ExternalTrainer(Trainer):
    """Trainer for any torch.optim.Optimizer, which runs in the script."""

    _update: Update
    _state: ScriptState
    _of_name: dict[str, torch.nn.Parameter]
    _means: dict[str, torch.Tensor]  # the newest mean gradient that the parameters were given
    _final: LastWeights | None = None
    _is_at_end = False  # the model has the job's last weights
    _log_is_late = False  # backward() has ended the slot, and the loop has not gone on

    def prepare(self, *given: Any, scheduler_interval: str | None = None, resumes: bool = False,
                unused: str | None = None, buffers: Mapping[str, str] | None = None, accumulates: int = 1,
                **named: Any) -> Any:
        """prepare(model, optimizer[, loader][, scheduler]), as Trainer.prepare does; the optimizer may be of any class
        whose step() needs no closure.

        The scheduler acts where the script calls it, after an optimizer.step() that has made a version.
        """
        if self._values is not None:
            raise Invalid("prepare() comes once: give it all loaders at once, and several models as one, "
                          "torch.nn.ModuleList([first, second])")
        if scheduler_interval is not None:
            raise Invalid('scheduler_interval is of schedulers that the job runs; with [optimizer] kind = "external" the '
                          "script runs its own: call scheduler.step() where plain PyTorch does")
        things = Arguments.sort(given, named, accumulates)
        _refuse(things.optimizer, things.scheduler, things.scaler)
        self._follows, self._means = resumes, {}
        self._rounds = ExternalRounds(self._round_begins, self._job_ends, self._waits, self._keep_version)
        self._computing = Computing(self._rounds, self._must_have_a_slot, self._tell_rates)
        self._computing.weighing = Weighing(self._job["job"], None)
        fetcher = self._take_over(things.loader, accumulates) if things.loader is not None else None
        if fetcher is not None and min(map(fetcher.plan.samples_in, range(fetcher.plan.steps_per_epoch))) < self._slots:
            raise Unsupported("the epoch's last batch has fewer samples than the job has slots, and a process without a "
                              "sample would not call optimizer.step(): give the loader drop_last=True")
        self._values = declare(self.client, things.model, things.optimizer, fetcher, Wishes(buffers), grouped=False)
        for part in things.models:
            no_sync.give(part, self.no_sync)
        self._computing.prepare(things.models, self._values.parameters, unused, clear=self._clear_mean, computed=self._end_slot)
        device = self._values.parameters[0].parameter.device
        self._state = ScriptState(things.optimizer, things.scheduler, device)
        self._update = Update(things.optimizer, things.scheduler)
        update = self._update
        things.optimizer.step = ScriptStep(self._optimizer_steps, lambda: update.acts)
        _refuse_loading(things.optimizer, things.scheduler)
        self._final = LastWeights(Reader(self._address, key_file=self._key_file), self._job)
        self._say_topology()
        atexit.register(leave_at_exit, weakref.ref(self), os.getpid())
        self._rounds.open(self.client)
        return things.answer(None if fetcher is None else Batches(self, things.loader, fetcher.plan), things.scaler)

    def backward(self, loss: torch.Tensor, samples: int | None = None, *, reduction: str | None = None,
                 divided: bool | None = None) -> None:
        """Runs loss.backward() and sends gradients, as Trainer.backward does. For the round's last slot it returns with
        the mean gradient of the whole step in the parameters' `grad`; before that they have none."""
        self._must_be_prepared()
        assert self._values is not None
        for entry in self._values.parameters:
            self._clear_mean(entry)
        super().backward(loss, samples, reduction=reduction, divided=divided)
        if not self._computing.tally.more_to_come:
            self._end_slot()

    @contextlib.contextmanager
    def accumulate(self, samples: int, *, divided: bool | None = None) -> Iterator[None]:
        with super().accumulate(samples, divided=divided):
            yield
        self._end_slot()

    def step(self) -> bool:
        """The same as the prepared optimizer.step(). False: the job is done."""
        self._optimizer_steps()
        return not self.done

    def skip(self) -> None:
        raise Unsupported('skip(): with [optimizer] kind = "external" each batch is to have a backward(): multiply the loss '
                          "by 0 in place of skipping it")

    def log(self, metrics: Mapping[str, tuple[Any, Any]]) -> None:
        """Logs pairs (sum, weight) by name, as Trainer.log does; call it before the backward() of the batch, which ends
        the slot."""
        self._must_be_prepared()
        if self._log_is_late:
            raise Invalid("log() comes before backward() where the script runs its own optimizer, because backward() ends the "
                          "slot and waits for the mean gradient: write trainer.log(...) above loss.backward()")
        self._computing.tally.log(metrics)

    def close(self, reason: str | None = None) -> None:
        if self._final is not None:
            self._final.close()
        super().close(reason)

    # ---- the job's life cycle ---------------------------------------------------------------------------------------

    def _round_begins(self, work: Work, before: Work | None) -> None:
        assert self._values is not None
        memory = self.client.weights_in_place
        self._is_at_end = work.at_end
        if work.source == "whole":
            self._values.take(memory, work.step)
            self._values.statistics.own(memory, work.step)
            self._state.load(work.program_state)
        elif work.source == "gradient":
            for entry in self._values.parameters:
                entry.parameter.grad = self._means[entry.name] = _gradient_of(entry, entry.view(memory))
            self._values.statistics.move(memory, work.step)
            self._update.is_due = True
        if before is not None and before.generation != work.generation and work.step <= before.step:
            self._went_back(work)

    def _clear_mean(self, entry: Parameter) -> None:
        """Removes the parameter's mean gradient, which the script has made zero if its zero_grad() does not remove it."""
        mean = self._means.get(entry.name)
        if mean is None or entry.parameter.grad is not mean or self._update.is_due:
            return
        if bool(mean.any()):
            raise Invalid(f'parameter "{entry.name}" still has the mean gradient of the step before, and plain PyTorch would '
                          "add the next one to it: call optimizer.zero_grad() before loss.backward()")
        entry.clear_gradient()

    def _end_slot(self) -> None:
        assert self._values is not None
        self._values.slot_is_over(self.global_step, self._computing.gradients.memory)
        self._computing.gradients.end()
        for entry in self._values.parameters:
            entry.clear_gradient()
        self._log_is_late = True
        slot, tally = self._rounds.take_slot(), self._computing.ends()
        slot.end(tally.loss_sum, predictions=tally.computed, metrics=tally.metrics)
        assert isinstance(self._rounds, ExternalRounds)
        self._rounds.go_on()

    def _optimizer_steps(self) -> None:
        self._must_be_prepared()
        computing = self._computing
        computing.gradients.settle()
        if computing.gradients.begun and not computing.tally.more_to_come:
            computing.must_be_computed()
        if computing.tally.more_to_come:
            computing.gradients.step_comes()
            computing.batch_is_stepped()
        self._update.make()
        self._log_is_late = False
        if self._is_at_end:
            self._rounds.next_slot()  # gives the last version if the job asks this process, and waits for the end

    def _keep_version(self, work: Work) -> None:
        """Gives the job the version that the model has now."""
        assert self._values is not None
        weights = {entry.name: entry.parameter.detach().cpu().contiguous() for entry in self._values.parameters}
        weights.update(self._values.statistics.kept())
        work.keep_version(weights, self._state.pack())

    def _waits(self) -> None:
        if self._final is not None:
            self._final.go_on_asking()

    def _job_ends(self) -> None:
        assert self._values is not None and self._final is not None
        if not self._is_at_end:
            self._final.take(self._values)
        self._final.close()

    def _loop_goes_on(self) -> None:
        self._update.loop_goes_on()
        self._log_is_late = False

    def _tell_rates(self, slot: Any) -> None:
        self._update.slot_begins()  # the script's optimizer has the rates

    def _must_be_prepared(self) -> None:
        if self._values is None:
            raise Invalid("prepare(model, optimizer) comes first")

    @property
    def _slots(self) -> int:
        return int(self._job["job"]["slots"])


def _gradient_of(entry: Parameter, mean: torch.Tensor) -> torch.Tensor:
    """A tensor of the script's own, in the parameter's memory order."""
    gradient = torch.empty_like(entry.parameter, requires_grad=False)
    gradient.copy_(mean)
    return gradient
