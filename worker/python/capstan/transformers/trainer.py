"""Trainer: makes the loop of Hugging Face's Trainer.train() a worker of a job."""
from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from typing import Any

import transformers
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR

from capstan.errors import Invalid, Unsupported
from capstan.place import Identity
from capstan.torch.own_slot import OwnSlot, connect_to_one, must_have_numbers
from capstan.torch.passes import Batches
from capstan.torch.stand_in import StandIn

_log = logging.getLogger("capstan")

_CHECKPOINT = ("train(resume_from_checkpoint=...): a job goes on from its own snapshots, with capstan launch --resume. To begin with the "
               "weights of a checkpoint, give Trainer the model {model}.from_pretrained(checkpoint)")
_TWICE = "train() was called before: a Trainer trains in one job; make another Trainer, in a job of its own"
_SCALER = "fp16=True has a GradScaler of the process's own: write bf16=True, or leave it out"
_PROCESSES = ("Trainer counts {count} processes of torch.distributed or devices, among which it would average the gradients before the job "
              "does: start the script by capstan run, and give each process one device by CUDA_VISIBLE_DEVICES")
_SIZE = "auto_find_batch_size=True changes the batch while it trains: write per_device_train_batch_size=..."
_BACKENDS = ("{name} keeps the weights, and so does the job: leave {name}= out of TrainingArguments, and give the servers the memory, by "
             "capstan run --servers N")
_LEFT_OUT = "resume_from_checkpoint is left out: the job goes on at step {step}, with its own weights"
_TOKENS = ("average_tokens_across_devices=True: the samples have different numbers of tokens, and each of the {ranks} processes takes the "
           "mean over its own: write average_tokens_across_devices=False in TrainingArguments to have it so")
_NO_EARLIER = ("this process was started again, and knows no evaluation before step {step}: the best model and the patience of an early stop "
               "count from here")
_NO_NUMBERS_ADVICE = ("give Trainer a train_dataset with __len__() and __getitem__(), such as datasets.load_dataset(..., streaming=False), and "
                      "batches by per_device_train_batch_size")


class _Loader(StandIn):
    """The training loader that Trainer iterates over: the script's before train(), and the job's in it."""

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        self.plain = loader
        self.batches: Batches | None = None  # the job's
        self.own: OwnSlot | None = None
        self.epoch = 0  # of the pass that comes
        self.is_empty = False  # the newest pass had no batch

    def __len__(self) -> int:
        return len(self.plain)

    def __iter__(self) -> Iterator[Any]:
        if self.batches is None or self.own is None:
            yield from self.plain
            return
        self.is_empty = True
        self.own.begin_pass(self.epoch)
        for batch in self.batches:
            self.own.must_not_repeat()
            self.is_empty = False
            self.own.batch_comes()
            yield batch


class _InTurn(list[Any]):
    """The batches of an update, all of which Trainer wants to see first. Its loop gets each from the job in its turn."""

    def __init__(self, batches: list[Any], coming: Iterator[Any]) -> None:
        super().__init__(batches)
        self._coming = coming

    def __iter__(self) -> Iterator[Any]:
        yield self[0]
        for _ in range(len(self) - 1):
            yield next(self._coming)


class _Follow(transformers.TrainerCallback):  # type: ignore[misc]
    """Joins the job when the training begins, and sets Trainer's counters to the job's step."""

    def __init__(self, trainer: TrainerMixin) -> None:
        self._trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        trainer = self._trainer
        state.global_step = trainer._globalstep_last_logged = trainer._join().step
        trainer._loader.epoch = -1
        if trainer._checkpoint and state.global_step == 0:
            raise Unsupported(_CHECKPOINT.format(model=type(trainer.model).__name__))
        if trainer._checkpoint:  # the process was started again
            _log.warning(_LEFT_OUT.format(step=state.global_step))
        if state.global_step > 0 and args.metric_for_best_model is not None:
            _log.warning(_NO_EARLIER.format(step=state.global_step))

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._trainer._loader.epoch += 1

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        own = self._trainer._loader.own
        assert own is not None
        state.global_step = own.step

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._trainer._rate = self._trainer._super._get_learning_rate()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        own = self._trainer._loader.own
        assert own is not None
        if own.is_done:  # the loop may have more epochs than the job
            control.should_training_stop = True

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        loader = self._trainer._loader
        assert loader.own is not None
        if loader.is_empty and not loader.own.is_done:  # the job had this epoch before this process was started again
            control.should_training_stop = control.should_evaluate = control.should_save = control.should_log = False

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        own = self._trainer._loader.own
        assert own is not None
        own.must_not_have_gone_back()
        self._trainer._take_best()


class TrainerMixin:
    """Goes before the class of a Trainer among the bases. `coordinator`, `rank`, `ranks` and `options` are those of
    capstan.torch.connect(), `unused` and `buffers` those of capstan.torch.Trainer.prepare(); capstan run and capstan launch
    give the first three by themselves."""

    # Of the Trainer's class.
    accelerator: Any
    args: Any
    lr_scheduler: Any
    model: Any
    optimizer: Any
    state: Any

    def __init__(self, *args: Any, coordinator: str | None = None, rank: int | None = None, ranks: int = 0,
                 unused: str | None = None, buffers: Mapping[str, str] | None = None, options: Mapping[str, Any] | None = None,
                 **kwargs: Any) -> None:
        self._identity = Identity.given(rank, ranks)
        self._connects: dict[str, Any] = {**(options or {}), "coordinator": coordinator}
        self._wishes: dict[str, Any] = {"unused": unused, "buffers": buffers}
        self._loader = _Loader(None)
        self._rate: Any = None  # of the present step, between optimizer.step() and scheduler.step()
        self._checkpoint: Any = None  # from which train() is to go on
        self._globalstep_last_logged = 0
        self._best_step = -1  # of the best evaluation
        self._best: tuple[str, dict[str, Any]] | None = None  # of processes that write none: its checkpoint's name, and its weights
        self._tokens: float | None = None  # of a sample
        super().__init__(*args, **kwargs)
        self._super.add_callback(_Follow(self))

    # ---- what Trainer calls ------------------------------------------------------------------------------------------

    def train(self, resume_from_checkpoint: Any = None, *args: Any, **kwargs: Any) -> Any:
        self._refuse()
        self._checkpoint = resume_from_checkpoint or self.args.resume_from_checkpoint
        return self._super.train(None, *args, **kwargs)

    def get_train_dataloader(self) -> Any:
        loader = self._super.get_train_dataloader()
        must_have_numbers(loader, _NO_NUMBERS_ADVICE)
        self._loader = _Loader(loader)
        return self._loader

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        """Gives the scheduler PyTorch's optimizer, and not Accelerate's, as the job does."""
        optimizer = optimizer if optimizer is not None else self.optimizer
        return self._super.create_scheduler(num_training_steps, getattr(optimizer, "optimizer", optimizer))

    def get_batch_samples(self, epoch_iterator: Iterator[Any], num_batches: int, *args: Any) -> Any:
        """The batches of an update, and the number of their tokens."""
        if self._loader.batches is None or num_batches == 1:
            batches, items = self._super.get_batch_samples(epoch_iterator, num_batches, *args)
            self._look_at_tokens(items)
            return batches, items
        batches = [batch for batch in [next(epoch_iterator, None)] if batch is not None]
        if batches:
            batches += self._loader.batches.rest_of_slot()
        _, items = self._super.get_batch_samples(iter(batches), len(batches), *args)
        self._look_at_tokens(items)
        return _InTurn(batches, epoch_iterator) if batches else [], items

    def _get_learning_rate(self) -> Any:
        """For the logs. The job's rate changes in optimizer.step(), and Trainer expects that in scheduler.step()."""
        return self._rate if self._rate is not None else self._super._get_learning_rate()

    def is_world_process_zero(self) -> bool:
        """Whether this process writes logs and checkpoints."""
        return self._identity.rank in (None, 0)

    is_local_process_zero = is_world_process_zero

    def save_model(self, *args: Any, **kwargs: Any) -> Any:
        return self._super.save_model(*args, **kwargs) if self.is_world_process_zero() else None

    def _determine_best_metric(self, *args: Any, **kwargs: Any) -> Any:
        is_best = self._super._determine_best_metric(*args, **kwargs)
        if is_best:
            self._best_step = self.state.global_step
        if not self.is_world_process_zero():
            self.state.best_model_checkpoint = None  # perhaps process 0 has not written it yet; see _take_best()
        return is_best

    def _save_checkpoint(self, model: Any, trial: Any, *args: Any, **kwargs: Any) -> Any:
        """Only process 0 writes. The others keep the best weights, which are the same, in memory."""
        if self.is_world_process_zero():
            return self._super._save_checkpoint(model, trial, *args, **kwargs)
        if self.args.load_best_model_at_end and self._best_step == self.state.global_step:
            path = os.path.join(self._super._get_output_dir(trial=trial), f"{PREFIX_CHECKPOINT_DIR}-{self._best_step}")
            self._best = path, {name: value.detach().clone() for name, value in self.model.state_dict().items()}
        return None

    # ---- the job -----------------------------------------------------------------------------------------------------

    @property
    def _super(self) -> Any:
        return super()

    def _join(self) -> OwnSlot:
        loader, count = self._loader, int(self.args.gradient_accumulation_steps)
        job = connect_to_one(identity=self._identity, **self._connects)
        loader.batches = job.prepare(self.model, self.optimizer, loader.plain, self.lr_scheduler, scheduler_interval="step",
                                     accumulates=count, **self._wishes)[2]
        self._wrap_scheduler()
        loader.own = OwnSlot(job, loader.batches, loop="Trainer.train()", write="Trainer(..., rank=..., ranks=...)", accumulates=count)
        return loader.own

    def _wrap_scheduler(self) -> None:
        step = self.lr_scheduler.step

        def step_of_loop(*_: Any) -> None:
            self._rate = None
            step()

        self.lr_scheduler.step = step_of_loop

    def _take_best(self) -> None:
        """What process 0 does by load_best_model_at_end, in the others."""
        if self._best is not None:
            self.state.best_model_checkpoint, weights = self._best
            self.model.load_state_dict(weights)

    def _look_at_tokens(self, items: Any) -> None:
        """The mean over the tokens of all processes is the mean of the processes' means where samples have equally many."""
        own = self._loader.own
        if own is None or items is None or own.ranks < 2 or not own.samples or not self.args.average_tokens_across_devices:
            return
        tokens = float(items) / own.samples
        if self._tokens not in (None, tokens):
            raise Unsupported(_TOKENS.format(ranks=own.ranks))
        self._tokens = tokens

    def _refuse(self) -> None:
        args, accelerator = self.args, self.accelerator
        if self._loader.own is not None:
            raise Invalid(_TWICE)
        if getattr(accelerator, "scaler", None) is not None:
            raise Unsupported(_SCALER)
        if max(args.world_size, args.n_gpu) > 1:
            raise Unsupported(_PROCESSES.format(count=max(args.world_size, args.n_gpu)))
        if args.auto_find_batch_size:
            raise Unsupported(_SIZE)
        for name in ("deepspeed", "fsdp"):
            if getattr(args, name, None):
                raise Unsupported(_BACKENDS.format(name=name))


class Trainer(TrainerMixin, transformers.Trainer):  # type: ignore[misc]
    """transformers.Trainer, whose train() is a worker of a job."""
