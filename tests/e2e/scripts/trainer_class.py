"""A trainer class for several processes of DistributedDataParallel, with a DistributedSampler and snapshots."""
import os
import sys

import torch
import torch.nn.functional as F
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

torch.set_num_threads(1)
out_dir, total_epochs, save_every, batch_size = sys.argv[1], 3, 2, 16


class MyTrainDataset(Dataset):
    def __init__(self, size):
        generator = torch.Generator().manual_seed(7)
        self.data = [(torch.rand(20, generator=generator), torch.rand(1, generator=generator)) for _ in range(size)]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]


class Trainer:
    def __init__(self, model, train_data, optimizer):
        self.rank = int(os.environ["RANK"])
        self.train_data, self.optimizer = train_data, optimizer
        self.model = DDP(model)

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        loss = F.mse_loss(self.model(source), targets)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def _run_epoch(self, epoch):
        b_sz = len(next(iter(self.train_data))[0])
        print(f"[{self.rank}] Epoch {epoch} | Batchsize: {b_sz} | Steps: {len(self.train_data)}")
        self.train_data.sampler.set_epoch(epoch)
        for i, (source, targets) in enumerate(self.train_data):
            print(f"[{self.rank}] {epoch} {i} loss {self._run_batch(source, targets):.7f}")

    def _save_snapshot(self, epoch):
        torch.save({"MODEL_STATE": self.model.module.state_dict(), "EPOCHS_RUN": epoch}, f"{out_dir}/snapshot.pt")
        print(f"Epoch {epoch} | Training snapshot saved")

    def train(self, max_epochs):
        for epoch in range(max_epochs):
            self._run_epoch(epoch)
            if self.rank == 0 and epoch % save_every == 0:
                self._save_snapshot(epoch)


def main():
    init_process_group("gloo")
    torch.manual_seed(11)
    train_set, model = MyTrainDataset(128), torch.nn.Linear(20, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-1)
    train_data = DataLoader(train_set, batch_size=batch_size, shuffle=False, sampler=DistributedSampler(train_set, shuffle=False))
    Trainer(model, train_data, optimizer).train(total_epochs)
    destroy_process_group()


if __name__ == "__main__":
    main()
