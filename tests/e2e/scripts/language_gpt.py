"""A GPT's pre-training loop with samples drawn by hand, accumulation, clipping, and a learning rate computed by hand."""
import math
import os
import sys

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
out_dir, iterations, eval_interval = sys.argv[1], 12, 4
batch_size, block_size, vocabulary, width, heads = 8, 16, 32, 32, 4
gradient_accumulation_steps, grad_clip, weight_decay = 2, 1.0, 0.1
learning_rate, min_lr, warmup_iters = 1e-2, 1e-3, 3

torch.manual_seed(1337)
text = torch.randint(0, vocabulary, (4000,), generator=torch.Generator().manual_seed(5)).cumsum(0) % vocabulary


def get_batch(split):
    data = text[:3600] if split == "train" else text[3600:]
    starts = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i:i + block_size] for i in starts])
    y = torch.stack([data[i + 1:i + 1 + block_size] for i in starts])
    return x, y


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (part.view(batch, length, heads, -1).transpose(1, 2) for part in self.attn(self.ln_1(x)).split(width, dim=2))
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // heads)
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        seen = F.softmax(scores.masked_fill(~mask, -math.inf), dim=-1) @ v
        x = x + self.proj(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(block_size, width)
        self.blocks, self.ln_f = nn.ModuleList(Block() for _ in range(2)), nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.wte.weight = self.lm_head.weight  # tied

    def forward(self, x, targets):
        h = self.wte(x) + self.wpe(torch.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h)
        logits = self.lm_head(self.ln_f(h))
        return logits, F.cross_entropy(logits.view(-1, vocabulary), targets.view(-1))


@torch.no_grad()
def estimate_loss():
    model.eval()
    losses = [model(*get_batch("val"))[1].item() for _ in range(2)]
    model.train()
    return sum(losses) / len(losses)


def get_lr(iteration):
    if iteration < warmup_iters:
        return learning_rate * (iteration + 1) / (warmup_iters + 1)
    ratio = (iteration - warmup_iters) / (iterations - warmup_iters)
    return min_lr + 0.5 * (1.0 + math.cos(math.pi * ratio)) * (learning_rate - min_lr)


master_process = True
model = GPT()
decayed = [p for p in model.parameters() if p.dim() >= 2]
others = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}],
                              lr=learning_rate, betas=(0.9, 0.95))
scaler = torch.cuda.amp.GradScaler(enabled=False)
X, Y = get_batch("train")
iter_num = 0
while True:
    for group in optimizer.param_groups:
        group["lr"] = get_lr(iter_num)
    if iter_num % eval_interval == 0 and master_process:
        print(f"step {iter_num}: val loss {estimate_loss():.7f}")
        if iter_num > 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "iter_num": iter_num},
                       os.path.join(out_dir, "ckpt.pt"))
    for micro_step in range(gradient_accumulation_steps):
        logits, loss = model(X, Y)
        loss = loss / gradient_accumulation_steps
        X, Y = get_batch("train")
        scaler.scale(loss).backward()
    if grad_clip != 0.0:
        scaler.unscale_(optimizer)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
        print(f"norm {iter_num} {norm.item():.7f}")
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    if master_process:
        print(f"loss {iter_num} {loss.item() * gradient_accumulation_steps:.7f}")
    iter_num += 1
    if iter_num >= iterations:
        break
