"""A script for Horovod, in the shape of its example for MNIST: a small network learns made-up digits.

horovod_test.py runs it with capstan's module in place of Horovod's: it replaces the one line that imports it.
"""
import argparse

import torch
import torch.nn.functional as functional
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import horovod.torch as hvd

parser = argparse.ArgumentParser(description="digits")
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--lr", type=float, default=0.05)
parser.add_argument("--momentum", type=float, default=0.5)
parser.add_argument("--seed", type=int, default=42)
parser.add_argument("--fp16-allreduce", action="store_true")
parser.add_argument("--gradient-predivide-factor", type=float, default=1.0)
parser.add_argument("--samples", type=int, default=256)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 6, kernel_size=3)
        self.first = torch.nn.Linear(6 * 5 * 5, 24)
        self.second = torch.nn.Linear(24, 10)

    def forward(self, x):
        x = functional.relu(functional.max_pool2d(self.conv(x), 2))
        x = functional.relu(self.first(x.flatten(1)))
        return functional.log_softmax(self.second(x), dim=1)


def digits(samples):
    """Pictures of 12 x 12: a blurred pattern for each digit, and noise."""
    generator = torch.Generator().manual_seed(5)
    patterns = torch.randn(10, 1, 12, 12, generator=generator)
    labels = torch.randint(10, (samples,), generator=generator)
    return TensorDataset(patterns[labels] + 0.5 * torch.randn(samples, 1, 12, 12, generator=generator), labels)


def metric_average(value, name):
    tensor = torch.tensor(value)
    return hvd.allreduce(tensor, name=name).item()


def train(epoch):
    model.train()
    train_sampler.set_epoch(epoch)
    for batch_idx, (data, target) in enumerate(train_loader):
        optimizer.zero_grad()
        loss = functional.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        average = metric_average(loss.item(), "avg_loss")
        if hvd.rank() == 0:
            print(f"loss {epoch} {batch_idx} {average:.9f}", flush=True)


def test():
    model.eval()
    loss, right = 0.0, 0.0
    for data, target in test_loader:
        output = model(data)
        loss += functional.nll_loss(output, target, reduction="sum").item()
        right += (output.argmax(1) == target).float().sum().item()
    loss = metric_average(loss / len(test_sampler), "avg_loss")
    right = metric_average(right / len(test_sampler), "avg_accuracy")
    if hvd.rank() == 0:
        print(f"test {loss:.6f} {right:.4f}", flush=True)


if __name__ == "__main__":
    args = parser.parse_args()
    hvd.init()
    torch.manual_seed(args.seed + hvd.rank())
    dataset = digits(args.samples)
    train_sampler = DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank())
    train_loader = DataLoader(dataset, batch_size=args.batch_size, sampler=train_sampler)
    test_sampler = DistributedSampler(dataset, num_replicas=hvd.size(), rank=hvd.rank(), shuffle=False)
    test_loader = DataLoader(dataset, batch_size=64, sampler=test_sampler)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr * hvd.size(), momentum=args.momentum)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), compression=compression,
                                         op=hvd.Average, gradient_predivide_factor=args.gradient_predivide_factor)
    for epoch in range(1, args.epochs + 1):
        train(epoch)
        test()
