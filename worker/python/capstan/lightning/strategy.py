"""Strategy: makes the loop of Lightning's Trainer.fit() a worker of a job."""
from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Mapping
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Timer
from lightning.pytorch.strategies import SingleDeviceStrategy
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from capstan.errors import Invalid, Unsupported
from capstan.place import Identity
from capstan.torch.own_slot import OwnSlot, connect_to_one, must_have_numbers
from capstan.torch.passes import Batches
from capstan.torch.stand_in import StandIn
from capstan.torch.trainer import Trainer

_log = logging.getLogger("capstan")
_MANUAL = ("automatic_optimization = False: the strategy ends a step after each training_step(); return the loss from training_step(), "
           "or write the loop yourself with capstan.torch.connect()")
_OPTIMIZERS = "configure_optimizers() returns {count} optimizers, and a job has one: give one optimizer a group for each"
_SCHEDULERS = ("configure_optimizers() returns {count} schedulers, and a job has one: chain them, with "
               "torch.optim.lr_scheduler.SequentialLR or ChainedScheduler")
_FREQUENCY = ('the scheduler has "frequency": {frequency}, and the job\'s acts after each {interval}: leave it out, and use LambdaLR with '
              "a function of the {interval}")
_SCALER = ('precision="{precision}" has a GradScaler of the process\'s own: write precision="bf16-mixed" or "32-true"')
_PART = ("{what} takes a part of each epoch, and an epoch of the job is a pass over all samples: leave it out, and give fit() a "
         "loader over torch.utils.data.Subset(...)")
_RELOADS = "reload_dataloaders_every_n_epochs={count}: the job's samples are those of the first loader; leave it out"
_CHECKPOINT = ("fit(ckpt_path=...): a job goes on from its own snapshots, with capstan launch --resume. To begin with the weights of a "
               "checkpoint, write {model}.load_from_checkpoint(path) before fit()")
_LEFT_OUT = "fit(ckpt_path=...) is left out: the job goes on at step {step}, with its own weights"
_LOADERS = "fit() was given several training loaders, and a job has one: make them one data set, torch.utils.data.ConcatDataset(...)"
_NO_LOADER = "fit() was given a training loader of {kind}, and the job takes the samples of a torch.utils.data.DataLoader: give it one"
_TWICE = "fit() was called before with this strategy: give the next Trainer a Strategy() of its own, in a job of its own"
_MANUAL_SCHEDULER = ("{what}: the job's scheduler acts by itself, after each {interval}: leave it out, and write LambdaLR with a function of the "
                     "{interval}")
_DEVICES = ("Trainer({what}={count}): each process of a job has one device: leave it out, and start the script by capstan run --workers "
            "{count}")
_TIME = "max_time, or Timer: each of the {ranks} processes has its own clock: write max_steps or max_epochs instead"
_SYNC = ("self.log(..., sync_dist=True) in training_step(): this strategy has no mean over the {ranks} processes there: leave it out. The "
         "job's loss is in metrics.jsonl; for other numbers write self.trainer.strategy.job.log({{name: (sum, weight)}}) in "
         "on_after_backward()")
_STOPPING = ('EarlyStopping(monitor="{monitor}"): each of the {ranks} processes has this number of its own samples, and would stop at another '
             "step: monitor one of validation_step(), which is the same in all processes")
_OWN_CHECKPOINT = ("ckpt_path in process {rank}: only process 0 writes checkpoints. Write `if trainer.is_global_zero:` before test(), validate() "
                   "and predict() with a ckpt_path")
_NO_LOSS = "training_step() returned None, and a slot of the job's step has no gradient then: write `return loss * 0` to pass over a batch"
_NO_NUMBERS_ADVICE = "give fit() a data set with __len__() and __getitem__(), in a DataLoader(..., batch_size=...)"
_CHANGED = "accumulate_grad_batches changed from {before} to {now} at step {step}: the job has the same number of batches in each step"


class _Nothing(dict[str, Any]):
    """A checkpoint that Lightning passes over."""

    def __bool__(self) -> bool:
        return False


class _Loader(StandIn):
    """The training loader that Lightning iterates over. Before each batch it sets the loop's counters to the job's step."""

    def __init__(self, batches: Batches, strategy: Strategy, length: int) -> None:
        super().__init__(batches)
        self._batches, self._strategy, self._length = batches, strategy, length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        self._strategy._pass_begins()
        for batch in self._batches:
            self._strategy._batch_comes()
            yield batch
        self._strategy._end_with_job()


class Strategy(SingleDeviceStrategy):  # type: ignore[misc]
    """Trainer(strategy=capstan.lightning.Strategy()): fit() joins the job of the coordinator at `coordinator`, or else at
    $CAPSTAN_COORDINATOR, or the one that `capstan run` makes of the script.

    `rank` and `ranks` are the number of this process and of all; capstan run, capstan launch, torchrun, mpirun and srun give
    them by themselves. `device` is the process's, if not the one that the Trainer's accelerator means. `unused` and `buffers`
    are those of capstan.torch.Trainer.prepare(), and `options` those of capstan.torch.connect().
    """

    strategy_name = "capstan"

    def __init__(self, coordinator: str | None = None, *, rank: int | None = None, ranks: int = 0,
                 device: torch.device | str | None = None, unused: str | None = None,
                 buffers: Mapping[str, str] | None = None, **options: Any) -> None:
        super().__init__()
        self._identity = Identity.given(rank, ranks)
        self._coordinator, self._options = coordinator, options
        self._unused, self._buffers = unused, buffers
        self._device = None if device is None else torch.device(device)
        self._own: OwnSlot | None = None  # None: fit() has not joined
        self._is_set_up = False  # fit() has its optimizer, and may join
        self._accumulates = 1
        self.job: Trainer | None = None  # the trainer of capstan.torch, once fit() has joined
        # This process's number in the job. Lightning writes logs and checkpoints where it is 0.
        self.global_rank = rank_zero_only.rank = self._identity.rank or 0
        # Lightning sets these two by Trainer(devices=..., num_nodes=...).
        self.parallel_devices: list[torch.device] = []
        self.num_nodes = 1

    # ---- what Lightning calls ----------------------------------------------------------------------------------------

    @property
    def root_device(self) -> torch.device:
        if self._device is None:
            kind = {"CUDAAccelerator": "cuda", "MPSAccelerator": "mps"}.get(type(self.accelerator).__name__, "cpu")
            index = (self._identity.local_rank or 0) % torch.cuda.device_count() if kind == "cuda" else None
            self._device = torch.device(kind) if index is None else torch.device(kind, index)
            if len(self.parallel_devices) == 1 and self.parallel_devices[0].index:  # devices=[1], and not devices=1
                self._device = self.parallel_devices[0]
        return self._device

    @property
    def is_global_zero(self) -> bool:
        """Whether this process writes logs and checkpoints."""
        return bool(self.global_rank == 0)

    def load_checkpoint(self, *args: Any, **kwargs: Any) -> Any:
        """Called for the ckpt_path of fit(), test() and their like."""
        if not self._is_fitting:
            self._must_have_written(args[0] if args else kwargs.get("checkpoint_path"))
            return super().load_checkpoint(*args, **kwargs)
        self._trainer.fit_loop.setup_data()  # joins
        assert self._own is not None
        if self._own.step == 0:
            raise Unsupported(_CHECKPOINT.format(model=type(self.lightning_module).__name__))
        _log.warning(_LEFT_OUT.format(step=self._own.step))  # the process was started again
        return _Nothing({"pytorch-lightning_version": pl.__version__})

    @property
    def restore_checkpoint_after_setup(self) -> bool:
        return self._is_fitting

    def setup(self, trainer: Any) -> None:
        self._is_set_up = False
        super().setup(trainer)
        if self._is_fitting:
            self._refuse(trainer)
            # configure_optimizers() may have asked for the loader's length, and so for the loader. Lightning asks again.
            trainer.fit_loop._combined_loader = None
            self._is_set_up = True

    def process_dataloader(self, dataloader: Any) -> Any:
        """Called with each loader. The training loader comes last of what a job needs, so this is where fit() joins."""
        if not (self._is_fitting and self._trainer.training and self._is_set_up):
            return dataloader
        if self.job is not None:
            raise Unsupported(_LOADERS)
        if not isinstance(dataloader, torch.utils.data.DataLoader):
            raise Unsupported(_NO_LOADER.format(kind=type(dataloader).__name__))
        must_have_numbers(dataloader, _NO_NUMBERS_ADVICE)
        self.job = connect_to_one(self._coordinator, self._identity, **self._options)
        self._accumulates = int(self._trainer.accumulate_grad_batches)
        config = self.lr_scheduler_configs[0] if self.lr_scheduler_configs else None
        scheduler = config.scheduler if config is not None else None
        batches: Batches = self.job.prepare(
            self.lightning_module, self.optimizers[0], dataloader, scheduler, unused=self._unused, buffers=self._buffers,
            scheduler_interval=config.interval if config is not None else None, accumulates=self._accumulates)[2]
        if config is not None:
            self._wait_for_job(config)
        self._own = OwnSlot(self.job, batches, loop="Trainer.fit()", write="Strategy(rank=..., ranks=...)",
                            accumulates=self._accumulates)
        return _Loader(batches, self, self._own.batches_per_epoch)

    def training_step(self, *args: Any, **kwargs: Any) -> Any:
        with self._watched_log():
            output = super().training_step(*args, **kwargs)
        if output is None:
            raise Unsupported(_NO_LOSS)
        return output

    def optimizer_step(self, *args: Any, **kwargs: Any) -> Any:
        output = super().optimizer_step(*args, **kwargs)
        self._end_with_job()
        return output

    def reduce_boolean_decision(self, decision: bool, *args: Any, **kwargs: Any) -> bool:
        """Called by EarlyStopping, among others."""
        if self._ranks > 1 and self._is_fitting:
            names = {value.meta.name for value in self._trainer.fit_loop.epoch_loop._results.values()}
            for callback in self._trainer.early_stopping_callbacks:
                if names & {callback.monitor, callback.monitor.removesuffix("_epoch"), callback.monitor.removesuffix("_step")}:
                    raise Unsupported(_STOPPING.format(monitor=callback.monitor, ranks=self._ranks))
        return decision

    def on_train_start(self) -> None:
        """A process that was started again begins with the job's epoch."""
        assert self._own is not None
        progress = self._trainer.fit_loop.epoch_progress
        for counters in (progress.total, progress.current):
            _set(counters, self._own.epoch)

    def on_train_end(self) -> None:
        assert self._own is not None
        self._own.must_not_have_gone_back()

    def optimizer_state(self, optimizer: Any) -> Any:
        """Only the process that writes checkpoints asks the servers."""
        return super().optimizer_state(optimizer) if self.is_global_zero else {}

    @contextlib.contextmanager
    def _watched_log(self) -> Iterator[None]:
        """Lightning leaves out sync_dist=True for this strategy, without a notice. In a validation that is right, because every
        process has all samples; in a training step the number would be this process's."""
        module = self.lightning_module
        log = module.log

        def watched(*args: Any, **kwargs: Any) -> None:
            if kwargs.get("sync_dist"):
                raise Unsupported(_SYNC.format(ranks=self._ranks))
            log(*args, **kwargs)

        if self._ranks > 1:
            module.__dict__["log"] = watched
        try:
            yield
        finally:
            module.__dict__.pop("log", None)

    # ---- the loop's counters -----------------------------------------------------------------------------------------

    def _pass_begins(self) -> None:
        assert self._own is not None
        self._own.begin_pass(self._trainer.current_epoch)

    def _batch_comes(self) -> None:
        """Sets the counters to where the job is, which is elsewhere than the loop after a process was started again, or when
        the job went back. Lightning counts the batch itself after this."""
        own, trainer = self._own, self._trainer
        assert own is not None
        if trainer.accumulate_grad_batches != self._accumulates:
            raise Unsupported(_CHANGED.format(before=self._accumulates, now=trainer.accumulate_grad_batches, step=own.step))
        own.batch_comes()
        loop, epoch = trainer.fit_loop.epoch_loop, trainer.current_epoch
        within = own.batch_within(epoch)
        _set(loop.batch_progress.current, within)
        _set(loop.batch_progress.total, epoch * own.batches_per_epoch + within)
        updates = loop.automatic_optimization.optim_progress.optimizer.step.total
        updates.ready = updates.completed = loop._batches_that_stepped = own.step
        trainer.fit_loop._data_fetcher.fetched = within

    def _end_with_job(self) -> None:
        """The loop may have more epochs than the job."""
        if self._own is not None and self._own.is_done:
            self._trainer.should_stop = True

    def _wait_for_job(self, config: Any) -> None:
        """The job acts by the interval. Lightning calls step() when the pass has not ended."""
        def step(*_: Any, **__: Any) -> None:
            if self.lightning_module._current_fx_name != "lr_scheduler_step":
                raise Unsupported(_MANUAL_SCHEDULER.format(what="self.lr_schedulers().step()", interval=config.interval))

        config.scheduler.step = step

    # ---- what is refused ---------------------------------------------------------------------------------------------

    @property
    def _trainer(self) -> Any:
        return self.lightning_module.trainer

    @property
    def _ranks(self) -> int:
        """The number of processes, as far as it is known before fit() joins."""
        return self.job.ranks if self.job is not None else self._identity.ranks

    @property
    def _is_fitting(self) -> bool:
        return bool(self._trainer.state.fn == "fit")

    def _must_have_written(self, path: Any) -> None:
        """The names of checkpoints may be others in other processes."""
        written = [getattr(callback, name, "") for callback in self._trainer.checkpoint_callbacks
                   for name in ("best_model_path", "last_model_path")]
        if self.global_rank > 0 and str(path) in written:
            raise Unsupported(_OWN_CHECKPOINT.format(rank=self.global_rank))

    def _refuse(self, trainer: Any) -> None:
        if self.job is not None:
            raise Invalid(_TWICE)
        self._refuse_places(trainer)
        self._refuse_optimizers(trainer)
        self._refuse_parts(trainer)

    def _refuse_places(self, trainer: Any) -> None:
        count = len(self.parallel_devices)
        if count > 1 and count != self.accelerator.auto_device_count():  # as many as devices="auto" gives
            raise Unsupported(_DEVICES.format(what="devices", count=count))
        if self.num_nodes > 1:
            raise Unsupported(_DEVICES.format(what="num_nodes", count=self.num_nodes))
        if self._ranks > 1 and any(isinstance(callback, Timer) for callback in trainer.callbacks):
            raise Unsupported(_TIME.format(ranks=self._ranks))

    def _refuse_optimizers(self, trainer: Any) -> None:
        if not self.lightning_module.automatic_optimization:
            raise Unsupported(_MANUAL)
        if len(self.optimizers) != 1:
            raise Unsupported(_OPTIMIZERS.format(count=len(self.optimizers)))
        if len(self.lr_scheduler_configs) > 1:
            raise Unsupported(_SCHEDULERS.format(count=len(self.lr_scheduler_configs)))
        overrides = type(self.lightning_module).lr_scheduler_step is not pl.LightningModule.lr_scheduler_step
        for config in self.lr_scheduler_configs:
            if overrides:
                raise Unsupported(_MANUAL_SCHEDULER.format(what="lr_scheduler_step()", interval=config.interval))
            if config.frequency != 1:
                raise Unsupported(_FREQUENCY.format(frequency=config.frequency, interval=config.interval))
        if getattr(self.precision_plugin, "scaler", None) is not None:
            raise Unsupported(_SCALER.format(precision=trainer.precision))

    def _refuse_parts(self, trainer: Any) -> None:
        limit = trainer.limit_train_batches  # 1 is one batch, and 1.0 is all of them
        for what, given in (("fast_dev_run", bool(trainer.fast_dev_run)), ("overfit_batches", trainer.overfit_batches > 0),
                            ("limit_train_batches", limit != 1.0 or isinstance(limit, int))):
            if given:
                raise Unsupported(_PART.format(what=f"{what}={getattr(trainer, what)}"))
        if trainer.reload_dataloaders_every_n_epochs:
            raise Unsupported(_RELOADS.format(count=trainer.reload_dataloaders_every_n_epochs))


def _set(counters: Any, value: int) -> None:
    for name in ("ready", "started", "processed", "completed"):
        setattr(counters, name, value)
