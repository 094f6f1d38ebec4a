"""Trainer: makes a script's model, optimizer, loader and scheduler a worker of a job."""
from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

import capstan.client
from capstan.client import Client, Slot, Work
from capstan.errors import Error, Invalid, Rewound
from capstan.reader import Reader
from capstan.torch import messages
from capstan.torch.arguments import Arguments
from capstan.torch.batches import Fetcher, Piece, key_of, seed_generators
from capstan.torch.declaration import declare
from capstan.torch.gradients import Gradients
from capstan.torch.identity import Identity
from capstan.torch.interval import Interval
from capstan.torch.last_version import LastVersion
from capstan.torch.optimizer_calls import Step, replace_calls
from capstan.torch.passes import Batches, Handout, Passes
from capstan.torch.rates import Rates
from capstan.torch.rounds import Rounds
from capstan.torch.rules import rule_of
from capstan.torch.schedule import Schedule, refuse_unknown
from capstan.torch.statistics import Wishes
from capstan.torch.tally import Tally
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
    lost. Its name is then "rank-N", so that a process started in its place replaces it. Without a coordinator nothing
    is trained.
    """
    address = capstan.client.coordinator_address(coordinator)
    identity = Identity.given(rank, ranks)
    client = capstan.client.connect(address, worker, rank=rank, ranks=ranks, join_seconds=join_seconds,
                                    on_notice=on_notice, key_file=key_file)
    return Trainer(client, address, identity, key_file)


class Trainer:
    """A worker of a job. It belongs to one thread at a time, and to the process that connected it."""

    def __init__(self, client: Client, address: str, identity: Identity = Identity(), key_file: str | None = None) -> None:
        self.client = client
        self._address, self._identity, self._key_file = address, identity, key_file
        self._job = client.job
        self._rounds = Rounds(client, self._round_begins, self._job_ends, self._waits)
        self._tally = Tally()  # of the current slot
        self._weighing = Weighing(self._job["job"], None)  # weights of losses
        self._values: Values | None = None
        self._gradients = Gradients([])
        self._rates: Rates | None = None  # None: prepare() has not been called
        self._schedule: Schedule | None = None
        self._last: LastVersion | None = None
        self._passes: Passes | None = None  # passes over the prepared loader
        self._handout: Handout | None = None  # hands out the loader's batches
        self._replays = False  # the loop's samples follow the job when it goes back
        self._follows = False  # the loop begins at the job's current step
        self._held_back = False  # the current slot ends once the script has shown when its scheduler acts
        self._has_left = False

    # ---- what a script calls ----------------------------------------------------------------------------------------

    def prepare(self, *given: Any, scheduler_interval: str | None = None, resumes: bool = False,
                unused: str | None = None, buffers: Mapping[str, str] | None = None, **named: Any) -> Any:
        """prepare(model, optimizer[, loader][, scheduler]), in any order: connects them to the job and returns them in
        the same order. The first loader is replaced by one with the job's batches; further loaders stay as they are.

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
        """
        if self._rates is not None:
            raise Invalid("prepare() comes once: give it all loaders at once, and several models as one, "
                          "torch.nn.ModuleList([first, second]); or train the second in a job and a trainer of its own")
        things = Arguments.sort(given, named)
        rule = rule_of(things.optimizer, self._job["optimizer"])
        self._follows = resumes
        fetcher = self._take_over(things.loader) if things.loader is not None else None
        if things.scheduler is not None:
            interval = Interval(scheduler_interval, self._passes and self._passes.steps_per_epoch,
                                type(things.scheduler).__name__)
            self._schedule = Schedule(things.scheduler, things.optimizer, interval)
            self._schedule.call_at_step(things.scheduler, self._scheduler_steps)
        elif scheduler_interval is not None:
            raise Invalid("scheduler_interval says how often a scheduler acts, and prepare() was given none")
        elif hasattr(things.optimizer.step, "_with_counter") or hasattr(things.optimizer.step, "_wrapped_by_lr_sched"):
            raise Invalid("the optimizer has a scheduler, which would not follow the job's steps: give it to prepare()")
        refuse_unknown(things.optimizer)
        self._values = declare(self.client, things.model, things.optimizer, fetcher, Wishes(buffers))
        self._gradients = Gradients(self._values.parameters, unused)
        self._rates = Rates(self.client, things.optimizer, rule, self._schedule)
        self._last = LastVersion(functools.partial(Reader, self._address, key_file=self._key_file), self._job, self._values, things.optimizer, rule)
        schedule = self._schedule
        replace_calls(things.optimizer, Step(self.step, lambda: schedule is not None and schedule.acts),
                      self._take_optimizer_state)
        self._say_topology()
        atexit.register(_at_exit, weakref.ref(self), os.getpid())
        self._rounds.open()
        return things.answer(None if fetcher is None else Batches(self, things.loader, fetcher.plan))

    def slots(self) -> Iterator[Slot]:
        """Yields the slots to compute until the job is done. For each, choose samples that depend only on slot.key,
        then call backward() and step(). Steps may be repeated, also earlier ones."""
        self._must_be_prepared()
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
        """Runs loss.backward() and sends gradients as they become final. `loss` is the mean over `samples` samples; a
        prepared loader knows their number. With reduction="sum" it is their sum, and the step's gradient is that of the
        sum over the global batch, as in plain PyTorch. With `divided` the losses of a slot's pieces add up to the
        slot's loss."""
        self._must_have_a_slot()
        counts = self._weighing.samples(self.global_step, self._piece, samples, self._tally)
        self._gradients.must_be_clear()
        weight = self._weighing.weight(loss, counts, self._tally, reduction, divided)
        if not self._gradients.begun:
            self._begin(counts.slot)
        if self._handout is not None and self._passes is not None:
            self._handout.let_go()
            self._passes.has_computed()
        scale = self.loss_scale * weight.gradient
        with self._gradients.all_or_nothing():
            self._gradients.compute(loss if scale == 1 else torch.mul(loss, scale), last=not self._tally.more_to_come)
        self._tally.computed += counts.loss
        self._tally.loss_sum += float(loss.detach()) * weight.loss

    @contextlib.contextmanager
    def accumulate(self, samples: int, *, divided: bool | None = None) -> Iterator[None]:
        """The calls of backward() inside are for pieces of one slot, which has `samples` samples in all. Each loss is
        the mean over its piece, or with `divided` that mean divided by the number of calls. A prepared loader
        accumulates by itself: it yields a slot in pieces of its batch_size."""
        if self._handout is not None:
            raise Invalid("a prepared loader accumulates by itself: give it a batch_size below global_batch / slots")
        self._must_have_a_slot()
        if self._gradients.begun:
            raise Invalid("accumulate() comes once before each step(), and before backward()")
        self._begin(samples)
        with self._gradients.all_or_nothing():
            self._tally.more_to_come, self._tally.divided = True, divided
            yield
            self._tally.more_to_come = False
            if self._tally.computed != samples:
                raise Invalid(f"accumulate({samples}) saw gradients of {self._tally.computed} samples")
            self._gradients.send_the_rest()

    def step(self) -> bool:
        """The prepared optimizer.step(): ends the slot. After the round's last slot it waits for the next round, whose
        weights are in the model on return. (It returns earlier as long as nothing shows when the scheduler acts.)
        False: the job is done."""
        self._must_be_prepared()
        self._gradients.must_be_whole()
        self._loop_goes_on()
        if self._rounds.slot is None or not self._gradients.begun or self._piece is not None:
            raise Invalid(messages.PLAIN_BACKWARD if self._gradients.of_the_script() else messages.NO_BACKWARD)
        if self._schedule is not None:
            self._schedule.interval.optimizer_steps()
        if self._tally.more_to_come:
            if self._handout is not None:
                self._handout.stepped = True
            return True
        undecided = self._schedule is not None and self._schedule.interval.word is None
        if undecided and self._rounds.is_last(self._rounds.slot):
            self._held_back = True
            return True
        self._end_slot()
        return not self.done

    def skip(self) -> None:
        """Skips the loop's current batch: it adds nothing to the step's gradient."""
        self._must_be_prepared()
        if self._rounds.slot is None or (self._handout is not None and self._piece is None):
            raise Invalid("skip() passes over the batch that the loop has, before its backward()")
        if self._handout is not None and self._passes is not None:
            self._handout.let_go()
            self._handout.stepped = True
            self._passes.has_computed()
        if self._tally.more_to_come:
            return
        if not self._gradients.begun:
            self._skip_slot()
            return
        with self._gradients.all_or_nothing():
            self._gradients.send_the_rest()
        self._end_slot()

    def log(self, metrics: Mapping[str, tuple[Any, Any]]) -> None:
        """Logs pairs (sum, weight) by name; call it between backward() and step(). The job records sum / weight over
        all slots of the step. Values of one name from several pieces of a slot are added up."""
        if self._rounds.slot is None or not self._gradients.begun:
            raise Invalid("log() comes between backward() and step()")
        self._tally.log(metrics)

    def barrier(self, seconds: float | None = None) -> None:
        """Waits until every worker of the job has called it; see Client.barrier."""
        self.client.barrier(seconds)

    def close(self, reason: str | None = None) -> None:
        """Leaves the job; other workers take over its slots. Without a `reason`, logs a warning if the job is not
        done."""
        if self._has_left:
            return
        self._has_left = True
        if reason is None and self._rates is not None and not self.done:
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
    def done(self) -> bool:
        """Whether the job's last step is committed."""
        return self._rounds.done

    @property
    def global_step(self) -> int:
        """The current step, which equals the number of committed steps."""
        return self._rounds.work.step if self._rounds.work is not None else self._steps

    @property
    def loss_scale(self) -> float:
        """The factor for this round's losses; 1 if the job has no loss scale."""
        return self._rounds.work.loss_scale if self._rounds.work is not None else 1.0

    @property
    def rank(self) -> int:
        """This process's number, from 0: the rank passed to connect(), or the index from capstan launch, which a
        restarted process keeps. A process that was started by hand has the number of its first slot, from prepare() on;
        it changes when slots move."""
        if self._identity.rank is None and self._rates is None:
            raise Invalid("this process has no number before prepare(): it has neither connect(rank=...) nor the index that "
                          "capstan launch gives its programs; ask after prepare()")
        return self._identity.rank_with(self._rounds.own_slots())

    @property
    def ranks(self) -> int:
        """The number of processes passed to connect() or given by capstan launch, else the job's number of slots."""
        return self._identity.ranks or int(self._job["job"]["slots"])

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

    def _begin(self, samples: int) -> None:
        """The computation of a slot begins; nothing of it has been sent."""
        slot = self._rounds.slot
        assert slot is not None
        self._weighing.look_at_slot(slot, samples)
        self._tell_rates(slot)
        self._tally.samples = samples
        self._gradients.begin(slot, samples)

    def _end_slot(self) -> None:
        """A slot is computed: passes its gradients to the client, and moves to the next slot or round."""
        self._held_back = False
        assert self._values is not None
        self._values.slot_ends(self.global_step, self._gradients.memory)
        self._gradients.end()
        slot, tally = self._rounds.take_slot(), self._tally
        self._keep(slot)
        slot.end(tally.loss_sum, predictions=tally.computed, metrics=tally.metrics)
        self._go_on()

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
        self._last.take()

    # ---- beginning --------------------------------------------------------------------------------------------------

    @property
    def _steps(self) -> int:
        return int(self._job["job"]["steps"])

    def _take_over(self, loader: Any) -> Fetcher:
        job = self._job["job"]
        fetcher = Fetcher(loader, seed=job["seed"], steps=job["steps"], global_batch=job["global_batch"],
                          slots=job["slots"])
        self._passes, self._handout = Passes(fetcher.plan.steps_per_epoch, job["steps"]), Handout(fetcher)
        self._replays = self._follows = True
        self._weighing = Weighing(job, fetcher.plan)
        self._weighing.look_at_loader(loader.batch_size)
        return fetcher

    def _say_topology(self) -> None:
        job, passes = self._job["job"], self._passes
        replay = "not replayable (no loader was prepared)" if passes is None else "replayable"
        per_epoch = passes.steps_per_epoch if passes is not None else 0
        epochs = f" ({job['steps'] / per_epoch:.4g} epochs of {per_epoch})" if per_epoch else ""
        assert self._values is not None
        parameters, statistics = self._values.parameters, len(self._values.statistics)
        elements = sum(entry.parameter.numel() for entry in parameters)
        kept = f" and {statistics} of statistics" if statistics else ""
        print(f'capstan: job "{job["name"]}" at {self._address}: {job["mode"]}, {job["steps"]} steps{epochs}, global '
              f'batch {job["global_batch"]} in {job["slots"]} slots, {self._job["cluster"]["servers"]} servers, '
              f"{len(parameters)} tensors with {elements} parameters{kept}, {replay}", file=sys.stderr)

    # ---- the loop ---------------------------------------------------------------------------------------------------

    def _pass(self) -> Iterator[Any]:
        """One pass over the prepared loader."""
        passes, handout = self._passes, self._handout
        assert passes is not None and handout is not None
        self._loop_goes_on()
        passes.begin(self.global_step, done=self.done)
        if self._schedule is not None:
            self._schedule.interval.pass_begins()
        while (slot := self._slot_of_pass()) is not None:
            assert self._rounds.work is not None
            piece, batch = handout.next(self._rounds.work, slot)
            if not piece.samples:
                handout.let_go()
                self._skip_slot()
                continue
            self._tally.more_to_come = not piece.last
            seed_generators(key_of("compute", *slot.key, piece.index))
            yield batch
            self._loop_goes_on()
            self._must_be_computed(slot, piece)
        passes.ends()
        if self._schedule is not None:
            self._schedule.interval.pass_ends()

    def _slot_of_pass(self) -> Slot | None:
        """The current slot; None if it is of a later epoch."""
        assert self._passes is not None
        self._rounds.next_slot()
        return self._rounds.slot if self.global_step < self._passes.end else None

    def _must_be_computed(self, slot: Slot, piece: Piece) -> None:
        assert self._handout is not None
        self._gradients.must_be_whole()
        if self._handout.piece is piece:
            raise Invalid(messages.PLAIN_BACKWARD if self._gradients.of_the_script() else messages.NOTHING_COMPUTED)
        if self._rounds.slot is slot and (piece.last or not self._handout.stepped):
            raise Invalid(messages.NO_STEP.format(share=self._weighing.share))

    def _loop_goes_on(self) -> None:
        """The script asks for a batch or computes. If it calls its scheduler after each step, it has done so by now."""
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
        self._go_on()

    def _go_on(self) -> None:
        self._tally = Tally()
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
    def _piece(self) -> Piece | None:
        """The piece that the prepared loader has handed out, until its backward()."""
        return self._handout.piece if self._handout is not None else None

    def _must_be_prepared(self) -> None:
        if self._rates is None:
            raise Invalid("prepare(model, optimizer) comes first")

    def _must_have_a_slot(self) -> None:
        self._must_be_prepared()
        self._gradients.must_be_whole()
        self._loop_goes_on()
        self._rounds.next_slot()
        if self.done:
            raise Invalid("the job is done: there is nothing more to compute (Trainer.done says so)")
        if not self._follows and self.global_step > 0:
            raise Invalid(messages.begins_late(self.global_step))
        self._follows = True


def _at_exit(trainer: weakref.ref[Trainer], process: int) -> None:
    """Called when the interpreter ends: leaves the job, and warns the user if the job is not done."""
    found = trainer()
    if found is None or process != os.getpid():
        return
    error = getattr(sys, "last_type", None)
    with contextlib.suppress(Error):
        found.close(None if error is None else f"{error.__name__} ended it")
