"""An image classifier in epochs: Adadelta, a scheduler that acts after each epoch, a test after each epoch."""
import sys

import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
out_dir, epochs, batch_size, log_interval = sys.argv[1], 3, 32, 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3, 1), nn.Conv2d(4, 8, 3, 1)
        self.fc1, self.fc2 = nn.Linear(288, 32), nn.Linear(32, 10)

    def forward(self, x):
        x = F.relu(self.conv2(F.relu(self.conv1(x))))
        x = F.max_pool2d(x, 2)
        return F.log_softmax(self.fc2(F.relu(self.fc1(torch.flatten(x, 1)))), dim=1)


def train(model, train_loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        if batch_idx % log_interval == 0:
            seen, share = batch_idx * len(data), 100.0 * batch_idx / len(train_loader)
            print(f"Train Epoch: {epoch} [{seen}/{len(train_loader.dataset)} ({share:.0f}%)] Loss: {loss.item():.7f}")


def test(model, test_loader, epoch):
    model.eval()
    loss, correct = 0.0, 0
    with torch.no_grad():
        for data, target in test_loader:
            output = model(data)
            loss += F.nll_loss(output, target, reduction="sum").item()
            correct += (output.argmax(dim=1) == target).sum().item()
    print(f"Test set {epoch}: Average loss: {loss / len(test_loader.dataset):.7f}, Accuracy: {correct}/{len(test_loader.dataset)}")


def images(count, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (count,), generator=generator)
    patterns = torch.rand(10, 1, 16, 16, generator=torch.Generator().manual_seed(1))
    return TensorDataset(patterns[labels] + 0.3 * torch.rand(count, 1, 16, 16, generator=generator), labels)


def main():
    torch.manual_seed(1)
    train_loader = DataLoader(images(320, 2), batch_size=batch_size)
    test_loader = DataLoader(images(64, 3), batch_size=64)
    model = Net()
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, epochs + 1):
        train(model, train_loader, optimizer, epoch)
        test(model, test_loader, epoch)
        scheduler.step()
    torch.save(model.state_dict(), f"{out_dir}/mnist_cnn.pt")


if __name__ == "__main__":
    main()
