"""Strategy: makes the loop of Lightning's Trainer.fit() a worker of a job."""
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from lightning.pytorch.strategies import SingleDeviceStrategy
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from capstan.errors import Invalid, Unsupported
from capstan.place import Identity
from capstan.torch.own_slot import OwnSlot, connect_to_one
from capstan.torch.passes import Batches
from capstan.torch.trainer import Trainer

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
_LOADERS = "fit() was given several training loaders, and a job has one: make them one data set, torch.utils.data.ConcatDataset(...)"
_NO_LOADER = "fit() was given a training loader of {kind}, and the job takes the samples of a torch.utils.data.DataLoader: give it one"
_TWICE = "fit() was called before with this strategy: give the next Trainer a Strategy() of its own, in a job of its own"
_CHANGED = "accumulate_grad_batches changed from {before} to {now} at step {step}: the job has the same number of batches in each step"


class _Loader:
    """The training loader that Lightning iterates over. Before each batch it sets the loop's counters to the job's step."""

    def __init__(self, batches: Batches, strategy: Strategy, length: int) -> None:
        self._batches, self._strategy, self._length = batches, strategy, length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        self._strategy._pass_begins()
        for batch in self._batches:
            self._strategy._batch_comes()
            yield batch

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._batches, name)


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
        self._accumulates = 1
        self.job: Trainer | None = None  # the trainer of capstan.torch, once fit() has joined
        # This process's number in the job. Lightning writes logs and checkpoints where it is 0.
        self.global_rank = rank_zero_only.rank = self._identity.rank or 0

    # ---- what Lightning calls ----------------------------------------------------------------------------------------

    @property
    def root_device(self) -> torch.device:
        if self._device is None:
            kind = {"CUDAAccelerator": "cuda", "MPSAccelerator": "mps"}.get(type(self.accelerator).__name__, "cpu")
            index = (self._identity.local_rank or 0) % torch.cuda.device_count() if kind == "cuda" else None
            self._device = torch.device(kind) if index is None else torch.device(kind, index)
        return self._device

    @property
    def is_global_zero(self) -> bool:
        """Whether this process writes logs and checkpoints."""
        return bool(self.global_rank == 0)

    def load_checkpoint(self, *args: Any, **kwargs: Any) -> Any:
        """Called for the ckpt_path of fit(), test() and their like."""
        if self._is_fitting:
            raise Unsupported(_CHECKPOINT.format(model=type(self.lightning_module).__name__))
        return super().load_checkpoint(*args, **kwargs)

    def setup(self, trainer: Any) -> None:
        super().setup(trainer)
        if self._is_fitting:
            self._refuse(trainer)

    def process_dataloader(self, dataloader: Any) -> Any:
        """Called with each loader. The training loader comes last of what a job needs, so this is where fit() joins."""
        if not (self._is_fitting and self._trainer.training):
            return dataloader
        if self.job is not None:
            raise Unsupported(_LOADERS)
        if not isinstance(dataloader, torch.utils.data.DataLoader):
            raise Unsupported(_NO_LOADER.format(kind=type(dataloader).__name__))
        self.job = connect_to_one(self._coordinator, self._identity, **self._options)
        self._accumulates = int(self._trainer.accumulate_grad_batches)
        config = self.lr_scheduler_configs[0] if self.lr_scheduler_configs else None
        scheduler = config.scheduler if config is not None else None
        batches: Batches = self.job.prepare(
            self.lightning_module, self.optimizers[0], dataloader, scheduler, unused=self._unused, buffers=self._buffers,
            scheduler_interval=config.interval if config is not None else None, accumulates=self._accumulates)[2]
        if scheduler is not None:  # the job acts by the interval; Lightning calls it when the pass has not ended
            scheduler.step = lambda *_, **__: None
        self._own = OwnSlot(self.job, batches, loop="Trainer.fit()", write="Strategy(rank=..., ranks=...)",
                            accumulates=self._accumulates)
        return _Loader(batches, self, self._own.batches_per_epoch)

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

    # ---- what is refused ---------------------------------------------------------------------------------------------

    @property
    def _trainer(self) -> Any:
        return self.lightning_module.trainer

    @property
    def _is_fitting(self) -> bool:
        return bool(self._trainer.state.fn == "fit")

    def _refuse(self, trainer: Any) -> None:
        if self.job is not None:
            raise Invalid(_TWICE)
        if not self.lightning_module.automatic_optimization:
            raise Unsupported(_MANUAL)
        if len(self.optimizers) != 1:
            raise Unsupported(_OPTIMIZERS.format(count=len(self.optimizers)))
        if len(self.lr_scheduler_configs) > 1:
            raise Unsupported(_SCHEDULERS.format(count=len(self.lr_scheduler_configs)))
        for config in self.lr_scheduler_configs:
            if config.frequency != 1:
                raise Unsupported(_FREQUENCY.format(frequency=config.frequency, interval=config.interval))
        if getattr(self.precision_plugin, "scaler", None) is not None:
            raise Unsupported(_SCALER.format(precision=trainer.precision))
        for what, default in (("fast_dev_run", False), ("overfit_batches", 0.0), ("limit_train_batches", 1.0)):
            given = getattr(trainer, what)
            if given != default or type(given) is not type(default):
                raise Unsupported(_PART.format(what=f"{what}={given}"))
        if trainer.reload_dataloaders_every_n_epochs:
            raise Unsupported(_RELOADS.format(count=trainer.reload_dataloaders_every_n_epochs))


def _set(counters: Any, value: int) -> None:
    for name in ("ready", "started", "processed", "completed"):
        setattr(counters, name, value)
