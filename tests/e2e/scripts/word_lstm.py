"""A language model with a hidden state from batch to batch, tied weights, clipping, and a rate that follows the validation."""
import math
import sys

import torch
from torch import nn

torch.set_num_threads(1)
out_dir, epochs, bptt, batch_size, clip, log_interval = sys.argv[1], 3, 8, 8, 0.25, 5
ntoken, nhid = 24, 16


class RNNModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.rnn = nn.Embedding(ntoken, nhid), nn.LSTM(nhid, nhid, 1)
        self.decoder = nn.Linear(nhid, ntoken)
        self.decoder.weight = self.encoder.weight

    def forward(self, tokens, hidden):
        output, hidden = self.rnn(self.encoder(tokens), hidden)
        return nn.functional.log_softmax(self.decoder(output).view(-1, ntoken), dim=1), hidden

    def init_hidden(self, bsz):
        return torch.zeros(1, bsz, nhid), torch.zeros(1, bsz, nhid)


def batchify(seed, count):
    generator = torch.Generator().manual_seed(seed)
    data = torch.randint(0, 3, (count * batch_size,), generator=generator).cumsum(0) % ntoken
    return data.view(batch_size, -1).t().contiguous()


def get_batch(source, i):
    seq_len = min(bptt, len(source) - 1 - i)
    return source[i:i + seq_len], source[i + 1:i + 1 + seq_len].view(-1)


def repackage_hidden(hidden):
    return tuple(h.detach() for h in hidden)


torch.manual_seed(1111)
train_data, val_data = batchify(1, 81), batchify(2, 33)
model, criterion, lr = RNNModel(), nn.NLLLoss(), 5.0
optimizer = torch.optim.SGD(model.parameters(), lr=lr)


def evaluate(source):
    model.eval()
    total, hidden = 0.0, model.init_hidden(batch_size)
    with torch.no_grad():
        for i in range(0, source.size(0) - 1, bptt):
            data, targets = get_batch(source, i)
            output, hidden = model(data, hidden)
            hidden = repackage_hidden(hidden)
            total += len(data) * criterion(output, targets).item()
    return total / (len(source) - 1)


def train(epoch):
    model.train()
    total, hidden = 0.0, model.init_hidden(batch_size)
    for batch, i in enumerate(range(0, train_data.size(0) - 1, bptt)):
        data, targets = get_batch(train_data, i)
        optimizer.zero_grad()
        hidden = repackage_hidden(hidden)
        output, hidden = model(data, hidden)
        loss = criterion(output, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        total += loss.item()
        if batch % log_interval == 0 and batch > 0:
            print(f"| epoch {epoch} | {batch} batches | lr {optimizer.param_groups[0]['lr']} | loss {total / log_interval:.7f}")
            total = 0.0


best_val_loss = None
for epoch in range(1, epochs + 1):
    train(epoch)
    val_loss = evaluate(val_data)
    print(f"| end of epoch {epoch} | valid loss {val_loss:.7f} | ppl {math.exp(val_loss):.4f}")
    if best_val_loss is None or val_loss < best_val_loss - 1:
        torch.save(model.state_dict(), f"{out_dir}/model.pt")
        best_val_loss = val_loss
    else:
        lr /= 4.0
        optimizer.param_groups[0]["lr"] = lr
