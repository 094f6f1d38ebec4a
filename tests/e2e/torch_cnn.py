#!/usr/bin/python3
"""Learns handwritten digits with a small CNN, as many scripts do: SGD with momentum, a scheduler per epoch, gradients of
two batches in each update, dropout, validation and a checkpoint in each epoch. torch_traps_test.py converts it."""
import csv
import gzip
import os
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 8
ACCUMULATION = 2

torch.set_num_threads(1)
torch.manual_seed(1)
with gzip.open(os.environ["DIGITS"], "rt", encoding="ascii") as file:
    rows = torch.tensor([[float(number) for number in row] for row in csv.reader(file)])
images, labels = rows[:, :-1].view(-1, 1, 8, 8) / 16, rows[:, -1].long()
train = DataLoader(TensorDataset(images[:1200], labels[:1200]), batch_size=20, shuffle=True)
held_out = DataLoader(TensorDataset(images[1200:], labels[1200:]), batch_size=199)

model = nn.Sequential(
    nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Dropout(0.1), nn.Linear(96, 10))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.2)

best = 0.0
for epoch in range(EPOCHS):
    model.train()
    batches = 0
    for index, (x, y) in enumerate(train):
        loss = criterion(model(x), y) / ACCUMULATION
        loss.backward()
        if (index + 1) % ACCUMULATION == 0:
            optimizer.step()
            optimizer.zero_grad()
        batches += 1
    scheduler.step()
    model.eval()
    with torch.no_grad():
        right = sum((model(x).argmax(dim=1) == y).sum().item() for x, y in held_out)
    best = max(best, right / len(held_out.dataset))
    print(f"epoch {epoch}: {batches} of {len(train)} batches, {right} right, next rate {scheduler.get_last_lr()[0]:.4g}")
    torch.save({"epoch": epoch, "model": model.state_dict(), "best": best}, f"{sys.argv[1]}-{epoch}.pt")
print(f"best: {100 * best:.2f} %")
