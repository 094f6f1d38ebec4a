"""capstan for Lightning: a strategy by which Trainer.fit() trains through the servers of a job.

    import capstan.lightning
    trainer = lightning.Trainer(max_epochs=3, strategy=capstan.lightning.Strategy())
    trainer.fit(model, loader)

The servers have the weights and run the optimizer of configure_optimizers(). Each process that runs the script computes one
slot of each step. The loader's batch_size is that of all processes together. What the job cannot follow is refused in
fit(), with the line to write instead.
"""
from capstan.lightning.strategy import Strategy

__all__ = ["Strategy"]
