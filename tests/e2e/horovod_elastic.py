"""An elastic script of horovod_test.py: two processes train; one may be killed at a batch.

usage: horovod_elastic.py FOLDER [RANK BATCH]       the process of this rank kills itself, once, before this batch
"""
import os
import signal
import sys

import torch

import capstan.horovod as hvd

BATCHES, EPOCHS = 12, 2


def batch_of(epoch, batch):
    generator = torch.Generator().manual_seed(1000 * epoch + 10 * batch + hvd.rank())
    x = torch.randn(8, 6, generator=generator)
    return x, torch.sin(x.sum(1, keepdim=True))


def die_if_told(epoch, batch):
    if len(sys.argv) > 2 and epoch == 1 and [hvd.rank(), batch] == [int(word) for word in sys.argv[2:4]]:
        mark = os.path.join(sys.argv[1], "died")
        if not os.path.exists(mark):
            open(mark, "x", encoding="ascii").close()
            os.kill(os.getpid(), signal.SIGKILL)


@hvd.elastic.run
def train(state):
    print(f"begins at {state.epoch} {state.batch} as rank {hvd.rank()} of {hvd.size()}", flush=True)
    for state.epoch in range(state.epoch, EPOCHS):
        for state.batch in range(state.batch, BATCHES):
            die_if_told(state.epoch, state.batch)
            x, y = batch_of(state.epoch, state.batch)
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            state.losses.append(hvd.allreduce(loss.detach()).item())
            if state.batch % 3 == 2:
                state.batch += 1
                state.commit()
        state.batch = 0


hvd.init()
torch.manual_seed(hvd.rank())
model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.01),
                                     named_parameters=model.named_parameters())
state = hvd.elastic.TorchState(model, optimizer, epoch=0, batch=0, losses=[])
callbacks = []
state.register_reset_callbacks([lambda: callbacks.append(hvd.size())])
train(state)
if hvd.rank() == 0:
    print("losses", len(state.losses), " ".join(f"{loss:.9f}" for loss in state.losses), flush=True)
    print("resets", callbacks, flush=True)
