#!/usr/bin/python3
"""A small GPT learns the C headers of this machine, letter by letter."""
import capstan.torch
import torch
from gpt_model import Gpt, Letters
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

torch.manual_seed(1)
model = Gpt()
plain = [p for p in model.parameters() if p.dim() < 2]
decayed = [p for p in model.parameters() if p.dim() >= 2]
optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}], lr=1e-3)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 20))
loader = DataLoader(Letters(), batch_size=16, shuffle=True)

trainer = capstan.torch.connect()
model, optimizer, loader, warmup = trainer.prepare(model, optimizer, loader, warmup)

for epoch in range(1):
    for x, y in loader:
        loss = cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warmup.step()

print(f"loss of the last batch: {loss:.2f}")
