#!/usr/bin/python3
"""A script for run_script_test.py: an MLP that learns sums of its inputs, started as `capstan run run_script.py`.

--epochs N      its loop has so many passes
--hold FIFO     from step 10 on it goes on only when FIFO has a writer
--how WORD      what happens to it:
    train       nothing
    fail        it fails before prepare()
    leave       it ends before prepare()
    wait        it never calls prepare()
    refused     its optimizer is one that the servers do not run
    rmsprop     its optimizer is RMSprop with all that the servers can keep for it
    slots       it gives prepare() no loader, and takes work from slots()
    by-hand     it gives prepare() no loader, and chooses samples itself
    epochs      its loop is over trainer.epochs()
    early       it asks for the client before prepare()
"""
import argparse
import signal
import sys

import capstan.torch
import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

BATCH, SAMPLES = 16, 100  # 7 steps in an epoch


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--hold")
    parser.add_argument("--how", default="train")
    return parser.parse_args()


def samples():
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(SAMPLES, 8, generator=generator)
    return x, x.sum(dim=1, keepdim=True)


def befall(how):
    if how == "fail":
        raise ValueError("no such file as digits.csv")
    if how == "leave":
        sys.exit(0)
    if how == "wait":
        signal.pause()


def loop(options, trainer, model, optimizer, loader):
    if options.how == "slots":
        for _ in trainer.slots():
            pass
        return
    if options.how == "by-hand":
        x, y = samples()
        for step in range(12):
            begin = step * BATCH % (SAMPLES - BATCH)
            trainer.backward(mse_loss(model(x[begin:begin + BATCH]), y[begin:begin + BATCH]), samples=BATCH)
            optimizer.step()
        return
    for _ in trainer.epochs() if options.how == "epochs" else range(options.epochs):
        for x, y in loader:
            if options.hold and trainer.global_step >= 10:
                open(options.hold, "rb").close()
            optimizer.zero_grad()
            trainer.backward(mse_loss(model(x), y))
            optimizer.step()


def main():
    options = arguments()
    befall(options.how)
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    if options.how == "refused":
        optimizer = torch.optim.LBFGS(model.parameters())
    elif options.how == "rmsprop":
        optimizer = torch.optim.RMSprop(model.parameters(), lr=0.001, momentum=0.5, centered=True)
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = DataLoader(TensorDataset(*samples()), batch_size=BATCH, shuffle=True)
    trainer = capstan.torch.connect()
    if options.how == "early":
        print(trainer.client)
    if options.how in ("slots", "by-hand"):
        model, optimizer = trainer.prepare(model, optimizer)
    else:
        model, optimizer, loader = trainer.prepare(model, optimizer, loader)
    loop(options, trainer, model, optimizer, loader)
    with torch.no_grad():
        x, y = samples()
        print(f"loss {mse_loss(model(x), y):.6f} at step {trainer.global_step}")


if __name__ == "__main__":
    main()
