#!/usr/bin/python3
"""One training with an optimizer that the servers do not run, by plain PyTorch or as a worker of a job; for
torch_external_test.py.

usage: torch_external_training.py plain|capstan JSON       both print the loss of each step, or of each slot
"""
import json
import sys

import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader

import torch_training


class Factored(torch.optim.Optimizer):
    """As third-party optimizers are: a state of other shapes than the parameter's, in fp64, and numbers in attributes and
    groups."""

    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr, "seen": 0.0})
        self.calls = 0

    @torch.no_grad()
    def step(self, closure=None):
        self.calls += 1
        for group in self.param_groups:
            group["seen"] += 1.0
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["rows"] = torch.zeros(parameter.shape[0], dtype=torch.float64)
                    state["moment"] = [torch.zeros_like(parameter), 0]
                squares = parameter.grad.double().square().reshape(parameter.shape[0], -1).mean(dim=1)
                state["rows"].mul_(0.9).add_(squares, alpha=0.1)
                state["moment"][0].mul_(0.9).add_(parameter.grad)
                state["moment"][1] += 1
                scale = (state["rows"].sqrt() + 1e-3).float().reshape(-1, *[1] * (parameter.dim() - 1))
                rate = group["lr"] / (1 + 0.01 * self.calls + 0.01 * group["seen"])
                parameter.sub_(rate * state["moment"][0] / scale)


def optimizer_of(name, model):
    if name == "rprop":
        return torch.optim.Rprop(model.parameters(), lr=0.01)
    if name == "adam":
        return torch.optim.Adam(model.parameters(), lr=0.01, amsgrad=True)
    return Factored(model.parameters(), lr=0.002)


def scheduler_of(setup, optimizer):
    if setup.get("per_epoch"):
        return torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.7)
    return torch_training.scheduler_of(optimizer)


def network(setup):
    torch.manual_seed(setup["seed"])
    model = torch_training.network(setup["seed"])
    if setup.get("norm"):
        model.insert(1, torch.nn.BatchNorm1d(torch_training.HIDDEN))
    return model


def update(model, optimizer):
    """The script's update, as in plain PyTorch."""
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
    optimizer.step()


def plain(setup):
    from capstan.torch.batches import Plan
    from capstan.torch.orders import shuffled

    model = network(setup)
    optimizer = optimizer_of(setup["optimizer"], model)
    scheduler = scheduler_of(setup, optimizer)
    plan = Plan(shuffled(torch_training.SAMPLES, setup["job_seed"]), samples=torch_training.SAMPLES,
                global_batch=setup["global_batch"], slots=1, batch=setup["global_batch"], drop_last=False)
    dataset, losses = torch_training.data(), []
    for step in range(setup["steps"]):
        piece, = plan.pieces(step, 0)
        x, y = dataset[list(piece.samples)]
        loss = mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        update(model, optimizer)
        losses.append(loss.item())
        if not setup.get("per_epoch") or (step + 1) % plan.steps_per_epoch == 0:
            scheduler.step()
    return losses


def by_capstan(setup):
    import capstan.torch

    model = network(setup)
    optimizer = optimizer_of(setup["optimizer"], model)
    scheduler = scheduler_of(setup, optimizer)
    loader = DataLoader(torch_training.data(), batch_size=setup["batch"], shuffle=True)
    trainer = capstan.torch.connect(setup["coordinator"], setup["name"])
    model, optimizer, loader, scheduler = trainer.prepare(model, optimizer, loader, scheduler)
    for _ in trainer.epochs():
        for x, y in loader:
            loss = mse_loss(model(x), y)
            optimizer.zero_grad()
            if setup.get("explicit"):
                trainer.backward(loss)
            else:
                loss.backward()
            update(model, optimizer)
            if not setup.get("per_epoch"):
                scheduler.step()
        if setup.get("per_epoch"):
            scheduler.step()
    return [float(sum(parameter.double().sum() for parameter in model.parameters()))]


def main():
    torch.set_num_threads(1)
    setup = json.loads(sys.argv[2])
    print(json.dumps({"plain": plain, "capstan": by_capstan}[sys.argv[1]](setup)))


if __name__ == "__main__":
    main()
