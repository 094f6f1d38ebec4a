"""capstan for PyTorch: a training script keeps its model, optimizer, loader and scheduler, and gets sharded servers.

    import capstan.torch
    trainer = capstan.torch.connect("10.0.0.5:29600")
    model, optimizer, loader, scheduler = trainer.prepare(model, optimizer, loader, scheduler)
    for epoch in range(10):
        for x, y in loader:                  # one epoch of the job
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        scheduler.step()

The rest of the loop stays as it is: accumulation, clipping, GradScaler and schedulers follow the job, or are refused at
their line with the line to write. The job file says how many steps there are, the global batch and its slots; the
servers run the optimizer that the script's torch.optim object names. Any number of processes may run the script; they
may come, go and be killed. When the job is done, the model of each has the final weights, and BatchNorm's statistics
with them.
"""
from capstan.torch.grad_scaler import GradScaler
from capstan.torch.reduce_hook import reduce_hook
from capstan.torch.trainer import Trainer, connect

__all__ = ["GradScaler", "Trainer", "connect", "reduce_hook"]
