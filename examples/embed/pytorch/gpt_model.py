"""A small GPT and its text: the C headers of this machine, letter by letter."""
import glob

import torch
from torch import nn
from torch.utils.data import Dataset

CONTEXT, WIDTH, HEADS, LAYERS = 64, 64, 4, 2


class Letters(Dataset):
    """Pieces of the headers. A sample is CONTEXT letters, and for each of them the letter that follows."""

    def __init__(self):
        headers = sorted(glob.glob("/usr/include/*.h"))
        data = b"".join(open(name, "rb").read() for name in headers)[:1 << 20]
        self.text = torch.tensor(list(data), dtype=torch.long).clamp(max=127)

    def __len__(self):
        return len(self.text) // CONTEXT - 1

    def __getitem__(self, index):
        piece = self.text[index * CONTEXT:(index + 1) * CONTEXT + 1]
        return piece[:-1], piece[1:]


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters, self.places = nn.Embedding(128, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, 0.1, "gelu", batch_first=True, norm_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH)), nn.Linear(WIDTH, 128)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(CONTEXT), persistent=False)

    def forward(self, x):
        hidden = self.letters(x) + self.places.weight
        return self.head(self.layers(hidden, self.mask))
