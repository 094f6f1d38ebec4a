"""capstan for Hugging Face's Trainer: train() trains through the servers of a job.

    from capstan.transformers import Trainer    # in place of transformers.Trainer
    trainer = Trainer(model, arguments, train_dataset=data)
    trainer.train()

The servers have the weights and run the optimizer. Each process that runs the script computes one slot of each step.
per_device_train_batch_size is the batch of all processes together. What the job cannot follow is refused in train(), with
the line to write instead. For Seq2SeqTrainer and its like, write `class MyTrainer(TrainerMixin, Seq2SeqTrainer)`.

Accelerate needs no module: `trainer.prepare(*accelerator.prepare(model, optimizer, loader, scheduler))`, with the trainer of
capstan.torch.connect().
"""
from capstan.transformers.trainer import Trainer, TrainerMixin

__all__ = ["Trainer", "TrainerMixin"]
