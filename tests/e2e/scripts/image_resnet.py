"""A residual network with batch norm: meters, accuracies, a scheduler per epoch, checkpoints with the best one."""
import shutil
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
out_dir, epochs, batch_size, print_freq = sys.argv[1], 2, 16, 2


class Basic(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs)
        self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        out = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(out + self.downsample(x))


class ResNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8)
        self.layer1, self.layer2, self.fc = Basic(8, 8, 1), Basic(8, 16, 2), nn.Linear(16, 10)

    def forward(self, x):
        x = self.layer2(self.layer1(torch.relu(self.bn1(self.conv1(x)))))
        return self.fc(x.mean((2, 3)))


class AverageMeter:
    def __init__(self, name):
        self.name, self.val, self.sum, self.count = name, 0.0, 0.0, 0

    def update(self, val, n):
        self.val, self.sum, self.count = val, self.sum + val * n, self.count + n

    def __str__(self):
        return f"{self.name} {self.val:.7f} ({self.sum / max(self.count, 1):.7f})"


def accuracy(output, target):
    return (output.argmax(1) == target).float().mean().item() * 100


def train(loader, model, criterion, optimizer, epoch):
    losses, top1 = AverageMeter("Loss"), AverageMeter("Acc@1")
    model.train()
    for i, (images, target) in enumerate(loader):
        output = model(images)
        loss = criterion(output, target)
        losses.update(loss.item(), images.size(0))
        top1.update(accuracy(output, target), images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % print_freq == 0:
            print(f"Epoch: [{epoch}][{i}/{len(loader)}] {losses} {top1}")


def validate(loader, model, criterion):
    losses, top1 = AverageMeter("Loss"), AverageMeter("Acc@1")
    model.eval()
    with torch.no_grad():
        for images, target in loader:
            output = model(images)
            losses.update(criterion(output, target).item(), images.size(0))
            top1.update(accuracy(output, target), images.size(0))
    print(f" * {losses} {top1}")
    return top1.sum / top1.count


def save_checkpoint(state, is_best):
    torch.save(state, f"{out_dir}/checkpoint.pth.tar")
    if is_best:
        shutil.copyfile(f"{out_dir}/checkpoint.pth.tar", f"{out_dir}/model_best.pth.tar")


def dummy(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(count, 3, 8, 8, generator=generator), torch.randint(0, 10, (count,), generator=generator))


def main():
    torch.manual_seed(3)
    model, criterion, best_acc1 = ResNet(), nn.CrossEntropyLoss(), 0.0
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    train_loader, val_loader = DataLoader(dummy(128, 1), batch_size), DataLoader(dummy(32, 2), batch_size)
    for epoch in range(epochs):
        train(train_loader, model, criterion, optimizer, epoch)
        acc1 = validate(val_loader, model, criterion)
        scheduler.step()
        save_checkpoint({"epoch": epoch + 1, "state_dict": model.state_dict(), "best_acc1": max(acc1, best_acc1),
                         "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}, acc1 > best_acc1)
        best_acc1 = max(acc1, best_acc1)


if __name__ == "__main__":
    main()
