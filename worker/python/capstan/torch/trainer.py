"""Trainer: makes a script's model, optimizer, loader and scheduler a worker of a job."""
from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import math
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

import capstan.client
from capstan.client import Client, Slot, Work
from capstan.errors import Error, Invalid, Rewound
from capstan.place import Identity
from capstan.reader import Reader
from capstan.torch import messages, no_sync
from capstan.torch.arguments import Arguments
from capstan.torch.batches import Fetcher
from capstan.torch.declaration import declare
from capstan.torch.clipping import Clipping
from capstan.torch.computing import Computing
from capstan.torch.grad_scaler import GradScaler
from capstan.torch.interval import Interval
from capstan.torch.joining import BROKER, OPEN_ENDED, Joining, refuse_endless
from capstan.torch.last_version import LastVersion
from capstan.torch.optimizer_calls import Step, replace_calls
from capstan.torch.orders import key_of, seed_generators
from capstan.torch.passes import Batches, Handout, Passes
from capstan.torch.rates import Rates
from capstan.torch.rounds import Rounds
from capstan.torch.rules import rule_of
from capstan.torch.schedule import Schedule, refuse_unknown
from capstan.torch.statistics import Wishes
from capstan.torch.together import Together
from capstan.torch.values import Values
from capstan.torch.weighing import Weighing

_log = logging.getLogger("capstan")


def connect(coordinator: str | None = None, worker: str | None = None, *, rank: int | None = None, ranks: int = 0,
            join_seconds: float = 60.0, on_notice: Callable[[str], object] = _log.warning,
            key_file: str | None = None) -> Trainer:
    """Asks the coordinator at "host:port" or "ipc:///path", or else at $CAPSTAN_COORDINATOR, for its job. An address with a
    key, "host:port#KEY", needs a file with this process's own: `key_file`, or $CAPSTAN_KEY_FILE.

    A newer process with this `worker` name, or $CAPSTAN_WORKER, replaces an older one. `rank` counts from 0; `ranks` is
    the job's number of slots. With a rank, only this process computes slot `rank`, and the job waits for it when it is
    lost. Its name is then "rank-N", so that a process started in its place replaces it. Without the argument, the rank
    is that of torchrun, mpirun or srun, if one of them started the process and more than one; `on_notice` says so. Copies
    that capstan launch starts have a number, and no slots of their own. Without a coordinator nothing is trained.

    In a script that `capstan run` has started, prepare() joins: the job follows from what it is given.
    """
    early = coordinator is None and BROKER in os.environ
    identity = Identity.given(rank, ranks)
    if identity.notice:
        on_notice(identity.notice)
    if identity.binds:
        rank, ranks = identity.rank, identity.ranks
    joining = Joining(functools.partial(capstan.client.connect, worker=worker, rank=rank, ranks=ranks,
                                        join_seconds=join_seconds, on_notice=on_notice, key_file=key_file),
                      None if early else capstan.client.coordinator_address(coordinator))
    return Trainer(joining, identity, key_file)


class Trainer(Together):
    """A worker of a job. It belongs to one thread at a time, and to the process that connected it."""

    def __init__(self, joining: Joining, identity: Identity = Identity(), key_file: str | None = None) -> None:
        self._joining, self._identity, self._key_file = joining, identity, key_file
        self._client: Client | None = None  # None: prepare() is to join
        self._address = ""
        self._rounds = Rounds(self._round_begins, self._job_ends, self._waits)
        self._computing = Computing(self._rounds, self._must_have_a_slot, self._tell_rates)
        self._clipping: Clipping | None = None
        self._values: Values | None = None
        self._rates: Rates | None = None  # None: prepare() has not been called
        self._schedule: Schedule | None = None
        self._last: LastVersion | None = None
        self._passes: Passes | None = None  # passes over the prepared loader
        self._replays = False  # the loop's samples follow the job when it goes back
        self._follows = False  # the loop begins at the job's current step
        self._held_back = False  # the current slot ends once the script has shown when its scheduler acts
        self._has_sums = self._has_skipped = False  # losses were sums; batches were skipped
        self._ended_by_clip = False  # clip_grad_norm_() has ended the slot; optimizer.step() has not come
        self._has_left = False
        if joining.address is not None:
            self._join(joining.address)

    # ---- what a script calls ----------------------------------------------------------------------------------------

    def prepare(self, *given: Any, scheduler_interval: str | None = None, resumes: bool = False,
                unused: str | None = None, buffers: Mapping[str, str] | None = None, accumulates: int = 1,
                **named: Any) -> Any:
        """prepare(model, optimizer[, loader][, scheduler][, scaler]), in any order: connects them to the job and returns
        them in the same order. Several models are trained as one. The first loader is replaced by one with the job's
        batches, in its sampler's order; further loaders stay as they are. A GradScaler is replaced by one with the job's
        scale.

        From now on the job provides the weights. The first weights come from rank 0, or without ranks from the process
        whose name comes first; they are on the servers' disks before the first step. optimizer.step() pushes. The
        scheduler follows the committed steps: it acts after each step or each epoch, as `scheduler_interval` says or as
        the script calls it. Without a loader, ask for work with slots(), or choose the samples yourself. In the latter
        case step() raises Rewound if the job goes back, and a job that has already begun is refused unless `resumes`
        says that the loop begins at global_step.

        The job also stores BatchNorm's statistics and spectral_norm's vectors. Any other buffer that changes is
        refused, unless `buffers` has a pattern for its name: "mean", the job stores the mean over a step's slots;
        "local", every process has its own value. With unused="zero" a parameter has gradient 0 in slots whose loss does
        not depend on it.

        `accumulates` is for a loop that scales its losses and adds up the gradients of so many batches of the loader for
        each optimizer.step(): the loader's batch_size is then a part of job.global_batch, and each slot has as many
        batches.

        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm) ends the step, waits for it, and returns the norm of
        the gradient over all processes. Where another slot of the step follows in this process, and where nothing shows
        yet when the scheduler acts, it returns the norm of the step before, or 0.
        clip_grad_value_() clips the mean gradient. Both need mode sync.
        """
        if self._rates is not None:
            raise Invalid("prepare() comes once: give it all loaders and models at once, or train the second model in a job "
                          "and a trainer of its own")
        things = Arguments.sort(given, named, accumulates)
        if self._client is None:
            self._join(self._joining.ask(things))
            return self.prepare(*given, scheduler_interval=scheduler_interval, resumes=resumes, unused=unused,
                                buffers=buffers, accumulates=accumulates, **named)
        rule = rule_of(things.optimizer, self._job["optimizer"])
        scaler = None if things.scaler is None else GradScaler(self, things.scaler.is_enabled())
        self._follows = resumes
        model = things.model
        fetcher = self._take_over(things.loader, accumulates) if things.loader is not None else None
        if things.scheduler is not None:
            per_epoch = self._passes.steps_per_epoch if self._passes is not None else None
            interval = Interval(scheduler_interval, per_epoch, type(things.scheduler).__name__)
            self._schedule = Schedule(things.scheduler, things.optimizer, interval)
            self._schedule.call_at_step(things.scheduler, self._scheduler_steps)
        elif scheduler_interval is not None:
            raise Invalid("scheduler_interval says how often a scheduler acts, and prepare() was given none")
        elif hasattr(things.optimizer.step, "_with_counter") or hasattr(things.optimizer.step, "_wrapped_by_lr_sched"):
            raise Invalid("the optimizer has a scheduler, which would not follow the job's steps: give it to prepare()")
        refuse_unknown(things.optimizer)
        self._values = declare(self.client, model, things.optimizer, fetcher, Wishes(buffers))
        for part in things.models:
            no_sync.give(part, self.no_sync)
        self._computing.prepare(things.models, self._values.parameters, unused)
        self._clipping = Clipping(self.client, self._values.parameters, self._norm_of_step)
        self._rates = Rates(self.client, things.optimizer, rule, self._schedule)
        self._last = LastVersion(functools.partial(Reader, self._address, key_file=self._key_file), self._job, self._values, things.optimizer, rule)
        schedule = self._schedule
        replace_calls(things.optimizer, Step(self.step, lambda: schedule is not None and schedule.acts),
                      self._take_optimizer_state)
        self._say_topology()
        atexit.register(leave_at_exit, weakref.ref(self), os.getpid())
        self._rounds.open(self.client)
        return things.answer(None if fetcher is None else Batches(self, things.loader, fetcher.plan), scaler)

    def slots(self) -> Iterator[Slot]:
        """Yields the slots to compute until the job is done. For each, choose samples that depend only on slot.key,
        then call backward() and step(). Steps may be repeated, also earlier ones."""
        self._must_be_prepared()
        refuse_endless(self._job, "slots()", "")
        self._replays = self._follows = True
        self._rounds.next_slot()
        while (slot := self._rounds.slot) is not None:
            seed_generators(key_of("compute", *slot.key, 0))
            yield slot
            self._loop_goes_on()
            if self._rounds.slot is slot:
                raise Invalid(f"slot {slot.index} was handed out, and step() has not ended it; trainer.skip() passes over "
                              "it")

    def epochs(self, count: int | None = None) -> Iterator[int]:
        """Yields the job's epochs from the current one, until the job is done or epoch number `count` is reached. Make
        one pass over the prepared loader for each."""
        self._must_be_prepared()
        if self._passes is None:
            raise Invalid("epochs() are of a prepared loader: give prepare() one, or take work from slots()")
        if count is None:
            refuse_endless(self._job, "epochs()", "write epochs(COUNT), or ")
        epoch = self.global_step // self._passes.steps_per_epoch
        while not self.done and (count is None or epoch < count):
            self._passes.expect(epoch)
            yield epoch
            self._loop_goes_on()
            if self._passes.is_expected:
                raise Invalid(f"epoch {epoch} had no pass over the prepared loader, and epochs() would not end")
            epoch = max(epoch + 1, self.global_step // self._passes.steps_per_epoch)

    def backward(self, loss: torch.Tensor, samples: int | None = None, *, reduction: str | None = None,
                 divided: bool | None = None) -> None:
        """Runs loss.backward(), for a loss of which that call cannot say enough. `loss` is the mean over `samples` samples; a
        prepared loader knows their number. With reduction="sum" it is their sum, and the step's gradient is that of the
        sum over the global batch, as in plain PyTorch. With `divided` the losses of a slot's pieces add up to the
        slot's loss."""
        self._computing.gradients.settle()
        self._must_have_a_slot()
        if reduction == "sum" and self._has_skipped:
            raise Invalid(messages.NO_SKIPS)
        self._has_sums = self._has_sums or reduction == "sum"
        self._computing.backward(loss, samples, reduction, divided)

    def no_sync(self) -> contextlib.AbstractContextManager[None]:
        """Within this block the gradients of loss.backward() stay in the process, as in DDP's no_sync(): the next
        loss.backward() outside adds its own and sends the sum. Losses are scaled by the script."""
        return self._computing.no_sync()

    @contextlib.contextmanager
    def accumulate(self, samples: int, *, divided: bool | None = None) -> Iterator[None]:
        """The calls of backward() inside are for pieces of one slot, which has `samples` samples in all. Each loss is
        the mean over its piece, or with `divided` that mean divided by the number of calls. A prepared loader
        accumulates by itself: it yields a slot in pieces of its batch_size."""
        if self._passes is not None:
            raise Invalid("a prepared loader accumulates by itself: give it a batch_size below global_batch / slots")
        self._computing.gradients.settle()
        self._must_have_a_slot()
        with self._computing.accumulate(samples, divided):
            yield

    def step(self) -> bool:
        """The prepared optimizer.step(): ends the slot. After the round's last slot it waits for the next round, whose
        weights are in the model on return. (It returns earlier as long as nothing shows when the scheduler acts.)
        False: the job is done."""
        self._must_be_prepared()
        if self._ended_by_clip:
            self._ended_by_clip = False
            if self._schedule is not None:
                self._schedule.interval.optimizer_steps()
            return not self.done
        self._computing.gradients.must_be_whole()
        self._loop_goes_on()
        if self.done:
            raise Invalid(messages.DONE)
        self._computing.must_be_computed()
        self._computing.gradients.step_comes()
        if self._schedule is not None:
            self._schedule.interval.optimizer_steps()
        if self._computing.tally.more_to_come:
            self._computing.batch_is_stepped()
            return True
        if self._is_undecided and self._is_last:
            self._held_back = True
            return True
        self._end_slot()
        return not self.done

    def skip(self) -> None:
        """Skips the loop's current batch: it adds nothing to the step's gradient."""
        self._must_be_prepared()
        computing = self._computing
        if self._rounds.slot is None or (computing.handout is not None and computing.piece is None):
            raise Invalid("skip() passes over the batch that the loop has, before its backward()")
        if self._has_sums:
            raise Invalid(messages.NO_SKIPS)
        self._has_skipped = True
        computing.gradients.settle()
        if computing.handout is not None:
            computing.handout.let_go()
            computing.handout.stepped = True
        if computing.tally.more_to_come:
            return
        if not computing.gradients.begun:
            self._skip_slot()
            return
        with computing.gradients.all_or_nothing():
            computing.gradients.send_the_rest()
        self._end_slot()

    def log(self, metrics: Mapping[str, tuple[Any, Any]]) -> None:
        """Logs pairs (sum, weight) by name; call it between backward() and step(). The job records sum / weight over
        all slots of the step. Values of one name from several pieces of a slot are added up."""
        if self._rounds.slot is None or not self._computing.gradients.begun:
            raise Invalid("log() comes between backward() and step(), and before clip_grad_norm_()")
        self._computing.tally.log(metrics)

    def close(self, reason: str | None = None) -> None:
        """Leaves the job; other workers take over its slots. Without a `reason`, logs a warning if the job is not
        done."""
        if self._has_left:
            return
        self._has_left = True
        self._computing.close()
        if self._client is None:
            return
        if reason is None and self._values is not None and not self.done and self._steps != OPEN_ENDED:
            per_epoch = self._passes.steps_per_epoch if self._passes is not None else None
            _log.warning("%s", messages.ends_early(self.global_step, self._steps, per_epoch))
            reason = f"its script ended at step {self.global_step} of {self._steps}"
        if self._last is not None:
            self._last.close()
        self.client.leave(reason or "the script is done")

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with contextlib.suppress(Error):  # the caller must see the block's exception, not this one
            self.close(None if kind is None else f"{kind.__name__} ended it")

    @property
    def client(self) -> Client:
        """The client library's object, for what this class does not offer."""
        if self._client is None:
            raise Invalid("capstan run makes the job of this script in prepare(): this comes after prepare()")
        return self._client

    @property
    def done(self) -> bool:
        """Whether the job's last step is committed."""
        return self._rounds.done

    @property
    def global_step(self) -> int:
        """The current step, which equals the number of committed steps."""
        return self._rounds.step

    @property
    def loss_scale(self) -> float:
        """The factor for this round's losses; 1 if the job has no loss scale."""
        return self._rounds.loss_scale

    @property
    def rank(self) -> int:
        """This process's number, from 0: the rank passed to connect(), or the index from capstan launch, which a
        restarted process keeps. A process that was started by hand has the number of its first slot, from prepare() on;
        it changes when slots move."""
        if self._identity.rank is None and self._values is None:
            raise Invalid("this process has no number before prepare(): it has neither connect(rank=...) nor the index that "
                          "capstan launch gives its programs; ask after prepare()")
        return self._identity.rank_with(self._rounds.own_slots())

    @property
    def ranks(self) -> int:
        """The number of processes passed to connect() or given by capstan launch, else the job's number of slots."""
        return self._identity.ranks or int(self._job["job"]["slots"])

    @property
    def local_rank(self) -> int:
        """This process's number on its machine, from 0, as its launcher gives it (LOCAL_RANK and its like). Without one it
        is an error."""
        return self._identity.place_on_machine()

    @property
    def is_main(self) -> bool:
        """Whether this is process number 0. Without numbers, it is the process that computes slot 0, which may change
        when a process is lost."""
        return self.rank == 0

    # ---- the job's life cycle: each of these is called in one place --------------------------------------------------

    def _round_begins(self, work: Work, before: Work | None) -> None:
        """A round's weights are in the client's memory; puts them into the script's model."""
        assert self._rates is not None and self._values is not None
        self._rates.round_begins()
        if self._schedule is not None:
            self._schedule.go_to(work.step, work.program_state)
        self._values.round_begins(work.step, self.client.weights_in_place)
        if before is not None and before.generation != work.generation and work.step <= before.step:
            self._went_back(work)

    def _end_slot(self) -> None:
        """A slot is computed: passes its gradients to the client, and moves to the next slot or round."""
        self._held_back = False
        assert self._values is not None and self._clipping is not None and self._rates is not None
        self._rates.must_stay(self.global_step)
        slot = self._rounds.slot
        assert slot is not None
        self._clipping.slot_ends(self.global_step, slot.index)
        self._values.slot_ends(self.global_step, self._computing.gradients.memory)
        self._computing.gradients.end()
        slot, tally = self._rounds.take_slot(), self._computing.ends()
        self._keep(slot)
        slot.end(tally.loss_sum, predictions=tally.computed, metrics=tally.metrics)
        self._rounds.next_slot()

    def _norm_of_step(self) -> float:
        """clip_grad_norm_() is called: see Clipping."""
        self._computing.gradients.settle()
        if self._computing.is_complete and not self._is_undecided and self._is_last:
            self._computing.gradients.step_comes()
            self._end_slot()
            self._ended_by_clip = True
        return self._rounds.grad_norm

    def _waits(self) -> None:
        """Called while waiting for a round. A process without slots needs the last weights too, so it must keep
        asking."""
        if self._last is not None:
            self._last.go_on_asking()

    def _job_ends(self) -> None:
        """The last step is committed; puts its weights into the script's model."""
        assert self._last is not None
        if self._schedule is not None and self._schedule.interval.word is not None:
            self._schedule.go_to(self._steps, b"")
        self._rounds.last_norm = self._last.take()

    # ---- beginning --------------------------------------------------------------------------------------------------

    def _join(self, address: str) -> None:
        """Becomes a worker of the job of the coordinator at this address."""
        self._client, self._address = self._joining.connect(address), address
        self._computing.weighing = Weighing(self._job["job"], None)
        if self._job["optimizer"]["kind"] == "external":
            from capstan.torch.external import ExternalTrainer  # it imports this module
            self.__class__ = ExternalTrainer

    @property
    def _job(self) -> dict[str, Any]:
        return self.client.job

    @property
    def _steps(self) -> int:
        return int(self._job["job"]["steps"])

    def _take_over(self, loader: Any, accumulates: int) -> Fetcher:
        job = self._job["job"]
        fetcher = Fetcher(loader, seed=job["seed"], steps=job["steps"], global_batch=job["global_batch"],
                          slots=job["slots"], accumulates=accumulates)
        self._passes = Passes(fetcher.plan.steps_per_epoch, job["steps"])
        self._replays = self._follows = True
        self._computing.handout = Handout(fetcher, self._passes)
        self._computing.weighing = Weighing(job, fetcher.plan)
        self._computing.weighing.look_at_loader(fetcher.batch_size)
        return fetcher

    def _say_topology(self) -> None:
        job, passes = self._job["job"], self._passes
        replay = "not replayable (no loader was prepared)" if passes is None else "replayable"
        per_epoch = passes.steps_per_epoch if passes is not None else 0
        steps = "steps until its programs end" if self._steps == OPEN_ENDED else f"{job['steps']} steps"
        epochs = f" ({job['steps'] / per_epoch:.4g} epochs of {per_epoch})" if per_epoch else ""
        epochs = f" (epochs of {per_epoch})" if per_epoch and self._steps == OPEN_ENDED else epochs
        assert self._values is not None
        parameters, statistics = self._values.parameters, len(self._values.statistics)
        elements = sum(entry.parameter.numel() for entry in parameters)
        kept = f" and {statistics} of statistics" if statistics else ""
        print(f'capstan.torch: job "{job["name"]}" at {self._address}: {job["mode"]}, {steps}{epochs}, global '
              f'batch {job["global_batch"]} in {job["slots"]} slots, {self._job["cluster"]["servers"]} servers, '
              f"{len(parameters)} tensors with {elements} parameters{kept}, {replay}", file=sys.stderr)

    # ---- the loop ---------------------------------------------------------------------------------------------------

    def _pass(self) -> Iterator[Any]:
        """One pass over the prepared loader."""
        passes, handout = self._passes, self._computing.handout
        assert passes is not None and handout is not None
        self._loop_goes_on()
        passes.begin(self.global_step, done=self.done)
        if self._schedule is not None:
            self._schedule.interval.pass_begins()
        while (slot := self._slot_of_pass()) is not None:
            assert self._rounds.work is not None
            piece, batch = handout.next(self._rounds.work, slot)
            if not piece.samples:
                handout.pass_over()
                self._skip_slot()
                continue
            self._computing.tally.more_to_come = not piece.last
            seed_generators(key_of("compute", *slot.key, piece.index))
            yield batch
            self._loop_goes_on()
            self._computing.batch_is_left(piece, slot)
        passes.ends()
        if self._schedule is not None:
            self._schedule.interval.pass_ends()

    def _rest_of_slot(self) -> list[Any]:
        """See Batches.rest_of_slot()."""
        handout, work, slot = self._computing.handout, self._rounds.work, self._rounds.slot
        assert handout is not None
        if work is None or slot is None or handout.piece is None:
            raise Invalid("rest_of_slot() comes after a batch of the prepared loader, and before its backward()")
        rest = handout.look_ahead(work)
        seed_generators(key_of("compute", *slot.key, handout.piece.index))  # reading the data has drawn numbers
        return rest

    def _slot_of_pass(self) -> Slot | None:
        """The current slot; None if it is of a later epoch."""
        assert self._passes is not None
        self._rounds.next_slot()
        return self._rounds.slot if self.global_step < self._passes.end else None

    def _loop_goes_on(self) -> None:
        """The script asks for a batch or computes. If it calls its scheduler after each step, it has done so by now."""
        if self._ended_by_clip and math.isfinite(self._rounds.grad_norm):
            raise Invalid(messages.NO_STEP_AFTER_CLIP)
        self._ended_by_clip = False  # a script that skips steps whose norm is not finite, as the job does
        if self._schedule is not None:
            self._schedule.interval.loop_goes_on()
            if self._held_back:
                self._end_slot()

    def _scheduler_steps(self) -> None:
        """The script calls scheduler.step()."""
        assert self._schedule is not None
        self._schedule.interval.scheduler_steps(done=self.done)
        if self._held_back:
            self._end_slot()

    def _skip_slot(self) -> None:
        """Ends a slot that has no samples."""
        assert self._values is not None
        self._values.slot_is_skipped()
        slot = self._rounds.take_slot()
        self._tell_rates(slot)
        self._keep(slot)
        slot.skip()
        self._computing.ends()
        self._rounds.next_slot()

    def _keep(self, slot: Slot) -> None:
        """In mode sync, gives the job the schedule's state after the step. Only the round's last slot does so, because
        until then the program may read the schedule's present state. The job's last slot is always the last of a
        round."""
        assert self._last is not None and self._rounds.work is not None
        self._last.ask_for(self._rounds.work.step)
        if self._schedule is not None and self._job["job"]["mode"] == "sync" and self._rounds.is_last(slot):
            self.client.set_program_state(self._schedule.after())

    def _tell_rates(self, slot: Slot) -> None:
        assert self._rates is not None and self._rounds.work is not None
        self._rates.tell(self._rounds.work, slot)

    def _went_back(self, work: Work) -> None:
        _log.warning("the job goes back to step %d", work.step)
        if not self._replays:
            raise Rewound(f"the job went back to step {work.step}, and this loop's samples do not: start the "
                          "process again, or take them from a prepared loader or from slots()")

    def _take_optimizer_state(self) -> None:
        if not self.done:
            assert self._last is not None
            self._last.take_optimizer_state()

    def _own_slots(self) -> Sequence[int]:
        return self._rounds.own_slots() or range(int(self._job["job"]["slots"]))

    # ---- what a call needs ------------------------------------------------------------------------------------------

    @property
    def _is_last(self) -> bool:
        """Whether the current slot is its round's last."""
        return self._rounds.slot is not None and self._rounds.is_last(self._rounds.slot)

    @property
    def _is_undecided(self) -> bool:
        """Whether nothing shows yet when the scheduler acts."""
        return self._schedule is not None and self._schedule.interval.word is None

    def _must_be_prepared(self) -> None:
        if self._rates is None:
            raise Invalid("prepare(model, optimizer) comes first")

    def _must_have_a_slot(self) -> None:
        self._must_be_prepared()
        self._computing.gradients.must_be_whole()
        self._loop_goes_on()
        self._rounds.next_slot()
        if self.done:
            raise Invalid(messages.DONE)
        if not self._follows and self.global_step > 0:
            raise Invalid(messages.begins_late(self.global_step))
        self._follows = True


def leave_at_exit(trainer: weakref.ref[Trainer], process: int) -> None:
    """Called when the interpreter ends: leaves the job, and warns the user if the job is not done."""
    found = trainer()
    if found is None or process != os.getpid():
        return
    error = getattr(sys, "last_type", None)
    with contextlib.suppress(Error):
        found.close(None if error is None else f"{error.__name__} ended it")
