#!/usr/bin/python3
"""One training of a small network, by plain PyTorch, by its DDP, or as a worker of a job; for torch_worker_test.py.

usage: torch_training.py plain|ddp|capstan JSON       plain and ddp print the loss of each step
"""
import json
import sys

import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, Dataset, TensorDataset

SAMPLES, FEATURES, HIDDEN = 320, 12, 24
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.05}),
    "momentum": (torch.optim.SGD, {"lr": 0.02, "momentum": 0.9, "nesterov": True}),
    "adam": (torch.optim.Adam, {"lr": 0.01, "betas": (0.8, 0.99), "eps": 1e-7}),
    "adamw": (torch.optim.AdamW, {"lr": 0.01}),
    "adagrad": (torch.optim.Adagrad, {"lr": 0.05, "eps": 1e-8}),
    "momentum-dampening": (torch.optim.SGD, {"lr": 0.02, "momentum": 0.9, "dampening": 0.2}),
    "adam-amsgrad": (torch.optim.Adam, {"lr": 0.01, "amsgrad": True}),
    "adamw-amsgrad": (torch.optim.AdamW, {"lr": 0.01, "amsgrad": True}),
    "adagrad-decay": (torch.optim.Adagrad, {"lr": 0.05, "lr_decay": 0.01, "initial_accumulator_value": 0.1}),
    "rmsprop": (torch.optim.RMSprop, {"lr": 0.005, "alpha": 0.95}),
    "rmsprop-centered": (torch.optim.RMSprop, {"lr": 0.002, "momentum": 0.9, "centered": True, "eps": 1e-3}),
    "adadelta": (torch.optim.Adadelta, {"lr": 1.0}),
    "adamax": (torch.optim.Adamax, {"lr": 0.01}),
    "nadam": (torch.optim.NAdam, {"lr": 0.01, "foreach": True}),  # see rules.py
    "radam": (torch.optim.RAdam, {"lr": 0.01}),
}


def data():
    generator = torch.Generator().manual_seed(11)
    x = torch.randn(SAMPLES, FEATURES, generator=generator)
    return TensorDataset(x, torch.sin(x @ torch.randn(FEATURES, 1, generator=generator)))


class Noisy(Dataset):
    """The data plus noise, which is drawn again each time that a sample is read."""

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        x, y = data()[index]
        return x + 0.1 * torch.randn(FEATURES), y


def network(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(FEATURES, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, HIDDEN),
                               torch.nn.Tanh(), torch.nn.Linear(HIDDEN, 1))


def optimizer_of(name, model):
    """Returns an optimizer with two groups, which differ in learning rate and weight decay."""
    kind, options = OPTIMIZERS[name]
    weights = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    return kind([{"params": weights, "weight_decay": 0.02}, {"params": others, "lr": 2 * options["lr"]}], **options)


class Wandering:
    """A scheduler whose rates depend on its initial state and on earlier rates, so the number of steps does not determine
    them."""

    def __init__(self, optimizer, begin):
        self.optimizer, self.place, self.seen = optimizer, begin, ()
        self.rates = {index: group["lr"] for index, group in enumerate(optimizer.param_groups)}

    def step(self):
        self.place = (1.7 * self.place + 0.1 * sum(self.seen)) % 1.0
        self.seen = (*self.seen[-3:], self.optimizer.param_groups[0]["lr"])
        for index, group in enumerate(self.optimizer.param_groups):
            group["lr"] = self.rates[index] * (0.5 + self.place)

    def state_dict(self):
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state):
        vars(self).update(state)


def scheduler_of(optimizer, begin=None):
    if begin is not None:
        return Wandering(optimizer, begin)
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10) * 0.99**step)


def plain(setup, rank=0, ranks=1):
    """Trains by PyTorch alone, with the batches that the job would choose. With several ranks, rank r computes slot r."""
    from capstan.torch.batches import Plan
    from capstan.torch.orders import shuffled

    model = network(setup["seed"])
    optimizer = optimizer_of(setup["optimizer"], model)
    scheduler = scheduler_of(optimizer)
    if ranks > 1:
        model = torch.nn.parallel.DistributedDataParallel(model)
    plan = Plan(shuffled(SAMPLES, setup["job_seed"]), samples=SAMPLES, global_batch=setup["global_batch"], slots=ranks,
                batch=setup["global_batch"], drop_last=False)
    dataset, losses = data(), []
    if "from" in setup:
        saved = torch.load(setup["from"])
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        for _ in range(setup["first"]):
            scheduler.step()
    for step in range(setup.get("first", 0), setup["steps"]):
        piece, = plan.pieces(step, rank)
        x, y = dataset[list(piece.samples)]
        loss = mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        if setup["clip_norm"]:
            torch.nn.utils.clip_grad_norm_(model.parameters(), setup["clip_norm"])
        optimizer.step()
        scheduler.step()
        total = loss.detach()
        if ranks > 1:
            torch.distributed.all_reduce(total)
        losses.append(total.item() / ranks)
    return losses


def ddp_rank(rank, setup, ranks, losses):
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{setup['rendezvous']}", rank=rank, world_size=ranks)
    got = plain(setup, rank, ranks)
    if rank == 0:
        losses.extend(got)
    torch.distributed.destroy_process_group()


def ddp(setup):
    import torch.multiprocessing as processes

    with processes.Manager() as manager:
        losses = manager.list()
        processes.start_processes(ddp_rank, (setup, 2, losses), nprocs=2, start_method="fork")  # with what is imported
        return list(losses)


def by_capstan(setup):
    import capstan.torch

    model = network(setup["seed"])
    optimizer = optimizer_of(setup["optimizer"], model)
    scheduler = scheduler_of(optimizer, setup.get("begin"))
    dataset = Noisy() if setup.get("noisy") else data()
    loader = DataLoader(dataset, batch_size=setup["batch"], shuffle=True, num_workers=setup.get("loaders", 0))
    trainer = capstan.torch.connect(setup["coordinator"], setup["name"])
    model, optimizer, loader, scheduler = trainer.prepare(model, optimizer, loader, scheduler)
    for _ in trainer.epochs():
        for x, y in loader:
            loss = mse_loss(model(x), y)
            (model if setup.get("zero") == "model" else optimizer).zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
    if "save" in setup:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, setup["save"])


def main():
    torch.set_num_threads(1)
    setup = json.loads(sys.argv[2])
    if sys.argv[1] == "capstan":
        by_capstan(setup)
    else:
        print(json.dumps({"plain": plain, "ddp": ddp}[sys.argv[1]](setup)))


if __name__ == "__main__":
    main()
