#!/usr/bin/python3
"""Learns the handwritten digits of examples/data."""
import os

import capstan.torch
import numpy
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

here = os.path.dirname(os.path.abspath(__file__))
digits = torch.tensor(numpy.loadtxt(os.path.join(here, "../../data/digits.csv.gz"), delimiter=","))
images, labels = digits[:, :64].float() / 16, digits[:, 64].long()
train, held_out = slice(0, 1500), slice(1500, None)

torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(128, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=120)
loader = DataLoader(TensorDataset(images[train], labels[train]), batch_size=64, shuffle=True)

trainer = capstan.torch.connect()
model, optimizer, loader, scheduler = trainer.prepare(model, optimizer, loader, scheduler)

for epoch in range(5):
    for x, y in loader:
        loss = cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()

model.eval()
with torch.no_grad():
    right = (model(images[held_out]).argmax(dim=1) == labels[held_out]).float().mean()
print(f"held out: {100 * right:.1f} % right")
