"""A variational autoencoder: a loss that is a sum over its samples, and random numbers in the forward pass."""
import sys

import torch
from torch import nn, optim
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
out_dir, epochs, log_interval = sys.argv[1], 2, 2
torch.manual_seed(1)
images = (torch.rand(160, 64, generator=torch.Generator().manual_seed(2)) > 0.7).float()
train_loader = DataLoader(TensorDataset(images, torch.zeros(160)), batch_size=32)
test_loader = DataLoader(TensorDataset(images[:32], torch.zeros(32)), batch_size=32)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(64, 24), nn.Linear(24, 4), nn.Linear(24, 4)
        self.fc3, self.fc4 = nn.Linear(4, 24), nn.Linear(24, 64)

    def forward(self, x):
        h = F.relu(self.fc1(x))
        mu, logvar = self.fc21(h), self.fc22(h)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar) if self.training else mu
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z)))), mu, logvar


model = VAE()
optimizer = optim.Adam(model.parameters(), lr=1e-3)


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x, reduction="sum")
    return bce - 0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())


def train(epoch):
    model.train()
    train_loss = 0.0
    for batch_idx, (data, _) in enumerate(train_loader):
        optimizer.zero_grad()
        recon, mu, logvar = model(data)
        loss = loss_function(recon, data, mu, logvar)
        loss.backward()
        train_loss += loss.item()
        optimizer.step()
        if batch_idx % log_interval == 0:
            print(f"Train Epoch: {epoch} [{batch_idx * len(data)}/{len(train_loader.dataset)}] Loss: {loss.item() / len(data):.7f}")
    print(f"====> Epoch: {epoch} Average loss: {train_loss / len(train_loader.dataset):.4f}")


def test(epoch):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for data, _ in test_loader:
            total += loss_function(*((out := model(data))[0], data), *out[1:]).item()
    print(f"====> Test set {epoch} loss: {total / len(test_loader.dataset):.4f}")


for epoch in range(1, epochs + 1):
    train(epoch)
    test(epoch)
torch.save(model.state_dict(), f"{out_dir}/vae.pt")
