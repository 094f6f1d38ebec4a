"""A process of torch_collectives_test.py.

usage: torch_collectives_script.py hook FILE|trainer       CAPSTAN_INDEX and CAPSTAN_INDEXES are from capstan launch
"""
import os
import sys

import torch

import capstan
import capstan.torch

RANK, RANKS = int(os.environ["CAPSTAN_INDEX"]), int(os.environ["CAPSTAN_INDEXES"])


def network():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(40, 300), torch.nn.Tanh(), torch.nn.Linear(300, 7))


def hook(file):
    """Trains one model with DDP's own reduction, and one with capstan's: gradients and weights have the same bits."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{file}", rank=RANK, world_size=RANKS)
    ddp = torch.nn.parallel.DistributedDataParallel
    with capstan.connect() as client:
        client.declare([capstan.Tensor("none", (1,))])
        plain, hooked = ddp(network()), ddp(network(), bucket_cap_mb=0.02)  # several buckets
        hooked.register_comm_hook(client, capstan.torch.reduce_hook)
        optimizers = [torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9) for model in (plain, hooked)]
        for step in range(6):
            generator = torch.Generator().manual_seed(10 * step + RANK)
            x, y = torch.randn(16, 40, generator=generator), torch.randn(16, 7, generator=generator)
            for model, optimizer in zip((plain, hooked), optimizers):
                optimizer.zero_grad()
                torch.nn.functional.mse_loss(model(x), y).backward()
                optimizer.step()
            for a, b in zip(plain.parameters(), hooked.parameters()):
                assert torch.equal(a.grad, b.grad) and torch.equal(a, b), step
        print("the hook has the bits of DDP", flush=True)
        try:
            capstan.torch.reduce_hook("no client", None)
        except capstan.Invalid as error:
            print(error, flush=True)
        for work in client.work():
            for slot in work.slots:
                slot.skip()


def trainer():
    """Metrics of an evaluation that both processes share, within a job that trains."""
    with capstan.torch.connect() as trainer:
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = torch.utils.data.TensorDataset(torch.ones(16, 40), torch.zeros(16, 7))
        model, optimizer, loader = trainer.prepare(model, optimizer, torch.utils.data.DataLoader(data, batch_size=4))
        print("before", trainer.mean({"accuracy": (trainer.rank + 1, 4)}), flush=True)
        for x, y in loader:
            optimizer.zero_grad()
            trainer.backward(torch.nn.functional.mse_loss(model(x), y))
            optimizer.step()
            if not trainer.done:
                values = trainer.all_reduce(torch.full((3,), float(trainer.rank)), "max")
                assert torch.equal(values, torch.full((3,), RANKS - 1.0)), values
                assert trainer.broadcast_object({"rank": trainer.rank}, 1) == {"rank": 1}
                assert [int(one) for one in trainer.all_gather(torch.tensor([trainer.rank]))] == list(range(RANKS))
                assert torch.equal(trainer.broadcast(torch.tensor([trainer.rank, 5]), 1), torch.tensor([1, 5]))
        print("all is right", flush=True)


if __name__ == "__main__":
    {"hook": hook, "trainer": trainer}[sys.argv[1]](*sys.argv[2:])
