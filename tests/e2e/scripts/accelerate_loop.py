"""A loop with Accelerate: accumulation, clipping and a schedule of steps."""
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
out_dir, accumulate = sys.argv[1], int(sys.argv[2])
accelerator = Accelerator(gradient_accumulation_steps=accumulate, cpu=True)
torch.manual_seed(5)
x = torch.randn(256, 12)
loader = DataLoader(TensorDataset(x, torch.sin(x.sum(1, keepdim=True))), batch_size=32)
model = torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.Tanh(), torch.nn.Linear(24, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.7)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
for epoch in range(3):
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.mse_loss(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        accelerator.print(f"epoch {epoch} rate {scheduler.get_last_lr()[0]:.7f} loss {loss.item():.7f}", flush=True)
if accelerator.is_main_process:
    accelerator.save(accelerator.unwrap_model(model).state_dict(), f"{out_dir}/model.pt")
