"""A small network by Lightning: clipping, accumulation, a schedule of epochs, validation and a checkpoint."""
import sys

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
out_dir, accumulate = sys.argv[1], int(sys.argv[2])


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(12, 24), torch.nn.Tanh(), torch.nn.Linear(24, 1))

    def loss(self, batch):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layers(x), y)

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        rate = self.optimizers().param_groups[0]["lr"]
        print(f"epoch {self.current_epoch} batch {batch_idx} step {self.global_step} rate {rate:.7f} loss {loss.item():.7f}", flush=True)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch))

    def on_validation_epoch_end(self):
        if not self.trainer.sanity_checking:
            print(f"validation {self.trainer.callback_metrics['val_loss'].item():.7f}", flush=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


L.seed_everything(5)
x = torch.randn(256, 12)
data = TensorDataset(x, torch.sin(x.sum(1, keepdim=True)))
checkpoint = L.pytorch.callbacks.ModelCheckpoint(out_dir, filename="{epoch}-{step}", save_top_k=-1)
trainer = L.Trainer(max_epochs=3, gradient_clip_val=0.5, accumulate_grad_batches=accumulate, accelerator="cpu", callbacks=[checkpoint],
                    enable_progress_bar=False, enable_model_summary=False, logger=False)
trainer.fit(Net(), DataLoader(data, batch_size=32), DataLoader(data, batch_size=64))
