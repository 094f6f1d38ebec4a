"""Measures how fast PyTorch trains capstan's models on this CPU: prints samples per second of all processes
together, and PyTorch's version.

    torch_train.py MODEL PROCESSES STEPS [--no-update]
    torch_train.py --version                                the version only

MODEL is mlp (784-1024-1024-10, 128 samples a process) or gpt (4 layers of width 256, 4 heads, 128 tokens, 16 samples
a process). Each process has one thread. Several processes use DistributedDataParallel over gloo. --no-update leaves the
optimizer out. Exits with 77 if PyTorch is not installed.
"""
import os
import socket
import subprocess
import sys
import time

os.environ['OMP_NUM_THREADS'] = os.environ['OPENBLAS_NUM_THREADS'] = '1'
# On processors newer than itself, OpenBLAS uses kernels without AVX. PyTorch is to be measured with the best ones.
with open('/proc/cpuinfo', encoding='ascii', errors='replace') as info:
    flags = next((line.split() for line in info if line.startswith('flags')), [])
for flag, core in ('avx512vl', 'SkylakeX'), ('avx2', 'Haswell'):
    if flag in flags:
        os.environ.setdefault('OPENBLAS_CORETYPE', core)
try:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    sys.exit(77)
with open('/proc/self/maps', encoding='ascii', errors='replace') as maps:
    if any(line.rstrip().endswith('/blas/libblas.so.3') for line in maps):  # or the file that it links to
        sys.exit('torch_train: this PyTorch multiplies with the reference BLAS, tens of times slower than it could; '
                 'install libopenblas0-pthread')

WARMUP = 3


class Block(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.future = torch.ones(context, context, dtype=torch.bool).triu(1)

    def forward(self, x):
        samples, length, width = x.shape
        q, k, v = (part.view(samples, length, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.attn(self.ln_1(x)).split(width, dim=2))
        scores = (q @ k.transpose(2, 3)) * (width // self.heads) ** -0.5
        mixed = scores.masked_fill(self.future, float('-inf')).softmax(dim=3) @ v
        x = x + self.proj(mixed.transpose(1, 2).reshape(samples, length, width))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate='tanh'))


class Gpt(nn.Module):
    def __init__(self, vocabulary=256, context=128, layers=4, heads=4, width=256):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads, context) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        return F.linear(self.ln_f(self.blocks(x)), self.wte.weight).flatten(0, 1)


SAMPLES = 2048  # in memory; every step draws a batch from them


def make(kind):
    """Returns model, samples, targets and the number of samples in a batch."""
    if kind == 'mlp':
        model = nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))
        return model, torch.randn(SAMPLES, 784), torch.randint(10, (SAMPLES,)), 128
    return Gpt(), torch.randint(256, (SAMPLES, 128)), torch.randint(256, (SAMPLES, 128)), 16


def train(kind, processes, rank, steps, update, address):
    """Returns the seconds of `steps` steps after a short warm-up, and the number of samples per step of this process."""
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    model, samples, targets, batch = make(kind)
    if processes > 1:
        dist.init_process_group('gloo', init_method=address, rank=rank, world_size=processes)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(WARMUP + steps):
        if step == WARMUP:
            begin = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        drawn = torch.randint(SAMPLES, (batch,))
        F.cross_entropy(model(samples[drawn]), targets[drawn].flatten()).backward()
        if update:
            optimizer.step()
    return time.perf_counter() - begin, batch


def free_address():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return f'tcp://127.0.0.1:{probe.getsockname()[1]}'


def main():
    if sys.argv[1:] == ['--version']:
        print(torch.__version__)
        return 0
    kind, processes, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    update = '--no-update' not in sys.argv[4:]
    if '--rank' in sys.argv:
        rank, address = int(sys.argv[-2]), sys.argv[-1]
        train(kind, processes, rank, steps, update, address)
        return 0
    os.environ.setdefault('GLOO_SOCKET_IFNAME', 'lo')
    address = free_address()
    others = [subprocess.Popen([sys.executable, *sys.argv, '--rank', str(rank), address])
              for rank in range(1, processes)]
    seconds, batch = train(kind, processes, 0, steps, update, address)
    print(processes * steps * batch / seconds, torch.__version__, flush=True)
    return max([other.wait() for other in others], default=0)


if __name__ == '__main__':
    sys.exit(main())
