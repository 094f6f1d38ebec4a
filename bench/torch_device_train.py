"""Measures how fast PyTorch trains the models of device_bench: JSON figures, each on a line as soon as it is measured.

    torch_device_train.py facts
    torch_device_train.py gpt|resnet18|convnet|mlp [--batch B] [--length T] [--steps N] [--precision bf16|fp32]
                          [--mode eager|compile|both] [--attention best|flash|cudnn|math] [--device cuda|cpu] [--small]
    torch_device_train.py gpt ... --processes 2     DistributedDataParallel over gloo, all processes on one device

A step is a forward pass in autocast, a backward pass, and AdamW (fused on a device); figures are medians of
runs, each with and without the optimizer. gpt is GPT-2 124M with its vocabulary padded to 50304
and scaled_dot_product_attention by the backend that is fastest here. Images are channels-last. Exits with 77
without PyTorch or without the device.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

try:
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    print('torch_device_train: SKIPPED, PyTorch is not installed', file=sys.stderr)
    sys.exit(77)

NO_DEVICE = 77
PEAK_TERAFLOPS = 989  # dense bf16 of an H100 and an H200
WARMUP = 5


def attention(q, k, v):
    if hasattr(F, 'scaled_dot_product_attention'):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    future = torch.ones(q.shape[2], q.shape[2], dtype=torch.bool, device=q.device).triu(1)
    scores = (q @ k.transpose(2, 3)) * q.shape[3] ** -0.5
    return scores.masked_fill(future, float('-inf')).softmax(dim=3) @ v


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        samples, length, width = x.shape
        q, k, v = (part.view(samples, length, self.heads, width // self.heads).transpose(1, 2)
                   for part in self.attn(self.ln_1(x)).split(width, dim=2))
        x = x + self.proj(attention(q, k, v).transpose(1, 2).reshape(samples, length, width))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate='tanh'))


class Gpt(nn.Module):
    def __init__(self, vocabulary, length, layers, heads, width):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.ln_f = nn.LayerNorm(width)
        nn.init.normal_(self.wte.weight, std=0.02)
        self.attention_operations = 6 * layers * width * length  # per token, as llm.c counts

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe.weight[:tokens.shape[1]]
        return F.linear(self.ln_f(self.blocks(x)), self.wte.weight).flatten(0, 1)


class BasicBlock(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.conv_1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.conv_2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm_1, self.norm_2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.shortcut = nn.Identity() if stride == 1 and before == width else nn.Sequential(
            nn.Conv2d(before, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        y = F.relu(self.norm_1(self.conv_1(x)))
        return F.relu(self.norm_2(self.conv_2(y)) + self.shortcut(x))


def resnet18(width):
    """Makes a ResNet-18 for images of up to 64 pixels a side, as capstan's: its first layer is a 3 x 3 convolution without
    pooling."""
    layers, before = [nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()], width
    for stage in range(4):
        for block in range(2):
            layers.append(BasicBlock(before, width << stage, 2 if stage > 0 and block == 0 else 1))
            before = width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))


def convnet(side, channels, hidden):
    layers, before = [], 1
    for filters in channels:
        layers += [nn.Conv2d(before, filters, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(2)]
        before, side = filters, side // 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * side * side, hidden), nn.ReLU(), nn.Linear(hidden, 10))


def make(options):
    """Returns model, inputs and targets on the device, the unit that is counted, and its number per step."""
    small, batch = options.small, options.batch
    if options.model == 'gpt':
        vocabulary = 64 if small else 50304
        sizes = (2, 2, 32) if small else (12, 12, 768)
        model = Gpt(vocabulary, options.length, *sizes)
        tokens = torch.randint(vocabulary, (2, batch, options.length))
        return model.to(options.device), *tokens.to(options.device), 'tokens/s', batch * options.length
    if options.model == 'mlp':
        width = 32 if small else 1024
        model = nn.Sequential(nn.Linear(784, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))
        inputs = torch.randn(batch, 784)
    elif options.model == 'convnet':
        model = convnet(8, (4, 8), 16) if small else convnet(28, (32, 64), 128)
        inputs = torch.randn(batch, 1, 8 if small else 28, 8 if small else 28)
    else:
        model = resnet18(4 if small else 64)
        inputs = torch.randn(batch, 3, 8 if small else 32, 8 if small else 32)
    if inputs.dim() == 4:
        model, inputs = model.to(memory_format=torch.channels_last), inputs.to(memory_format=torch.channels_last)
    targets = torch.randint(10, (batch,))
    return model.to(options.device), inputs.to(options.device), targets.to(options.device), 'samples/s', batch


def wait(options):
    if options.device == 'cuda':
        torch.cuda.synchronize()


def seconds_of(step, options):
    """Returns the seconds of one step: the median of three runs that wait only at their end, PyTorch's best case."""
    runs = []
    for _ in range(WARMUP):
        step()
    for _ in range(3):
        wait(options)
        begin = time.perf_counter()
        for _ in range(options.steps):
            step()
        wait(options)
        runs.append((time.perf_counter() - begin) / options.steps)
    return statistics.median(runs)


def trainer(options, compiled):
    """Returns a step function (its argument: whether to update), the unit that is counted, its number per step, and the
    operations per unit."""
    model, inputs, targets, unit, count = make(options)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    extra = getattr(model, 'attention_operations', 0)
    fused = {'fused': True} if options.device == 'cuda' else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **fused)
    if options.processes > 1:
        model = nn.parallel.DistributedDataParallel(model)
    if compiled:
        model = torch.compile(model)
    narrow = options.precision == 'bf16'

    def step(update):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(options.device, torch.bfloat16, enabled=narrow):
            loss = F.cross_entropy(model(inputs), targets.flatten())
        loss.backward()
        if update:
            optimizer.step()

    return step, unit, count, 6 * parameters + extra


def backends(options):
    """Returns attention backend -> a function that makes a context in which PyTorch uses it. Some may not run here."""
    import contextlib
    default = {'default': contextlib.nullcontext}
    try:
        from torch.nn.attention import SDPBackend, sdpa_kernel
    except ImportError:
        return default
    if options.model != 'gpt' or options.device != 'cuda' or options.precision != 'bf16':
        return default
    known = {'flash': SDPBackend.FLASH_ATTENTION, 'math': SDPBackend.MATH}
    if hasattr(SDPBackend, 'CUDNN_ATTENTION'):
        known['cudnn'] = SDPBackend.CUDNN_ATTENTION
    wanted = [name for name in ('flash', 'cudnn') if name in known] if options.attention == 'best' else [options.attention]
    return {name: lambda backend=known[name]: sdpa_kernel(backend) for name in wanted}


def say(name, value, unit, seconds, limit=None, limit_name=''):
    figure = {'name': name, 'value': value, 'unit': unit, 'limit': limit, 'limit_name': limit_name,
              'ratio': None if limit is None else value / limit, 'microseconds': seconds * 1e6}
    print(json.dumps(figure), flush=True)


def measure(options, mode, candidates):
    """Prints the figures of the fastest attention backend and returns its name; None if none runs."""
    best = None  # seconds, name, seconds without the optimizer, and the results of trainer()
    for name in candidates:
        try:
            if mode == 'compile':
                torch._dynamo.reset()
            step, *rest = trainer(options, mode == 'compile')
            with backends(options)[name]():
                seconds = [seconds_of(lambda update=update: step(update), options) for update in (True, False)]
            if best is None or seconds[0] < best[0][0]:
                best = seconds, name, rest
        except RuntimeError as error:
            print(f'torch_device_train: {mode}, attention {name}: {(str(error).splitlines() or [error])[-1]}', file=sys.stderr)
    if best is None:
        return None
    seconds, name, (unit, count, operations) = best
    if options.rank == 0:
        for each, suffix in zip(seconds, ('', '-without-optimizer')):
            what = f'torch/{options.model}-b{options.batch}/{mode}{suffix}'
            what += f'/{options.processes}-processes' if options.processes > 1 else ''
            what += f'/attention-{name}' if options.model == 'gpt' else ''
            limit = (PEAK_TERAFLOPS * 1e12 / operations, 'the peak of dense bf16 of an H200 at 6N+6LCT operations a token')
            say(what, count * options.processes / each, unit, each, *(limit if options.model == 'gpt' else ()))
    return name


def facts(options):
    known = {'torch': torch.__version__, 'cuda_of_torch': torch.version.cuda, 'python': sys.version.split()[0]}
    if options.device == 'cuda':
        known['cudnn'] = torch.backends.cudnn.version()
        known['device'] = torch.cuda.get_device_name(0)
    print(json.dumps(known))


def start_others(options):
    """Starts the other processes of DistributedDataParallel; this one is rank 0. Returns (address, processes)."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        address = f'tcp://127.0.0.1:{probe.getsockname()[1]}'
    others = [subprocess.Popen([sys.executable, *sys.argv, '--rank', str(rank), '--address', address])
              for rank in range(1, options.processes)]
    return address, others


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('model', choices=['facts', 'gpt', 'resnet18', 'convnet', 'mlp'])
    parser.add_argument('--batch', type=int, default=32)
    parser.add_argument('--length', type=int, default=1024)
    parser.add_argument('--steps', type=int, default=20)
    parser.add_argument('--precision', choices=['bf16', 'fp32'], default='bf16')
    parser.add_argument('--mode', choices=['eager', 'compile', 'both'], default='both')
    parser.add_argument('--attention', choices=['best', 'flash', 'cudnn', 'math'], default='best')
    parser.add_argument('--device', choices=['cuda', 'cpu'], default='cuda')
    parser.add_argument('--processes', type=int, default=1)
    parser.add_argument('--small', action='store_true')
    parser.add_argument('--rank', type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument('--address', help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    options = arguments()
    if options.device == 'cuda' and not torch.cuda.is_available():
        print('torch_device_train: SKIPPED, PyTorch sees no CUDA device', file=sys.stderr)
        return NO_DEVICE
    if options.model == 'facts':
        facts(options)
        return 0
    torch.manual_seed(options.rank)
    others = []
    if options.processes > 1:
        os.environ.setdefault('GLOO_SOCKET_IFNAME', 'lo')
        if options.rank == 0:
            options.address, others = start_others(options)
        dist.init_process_group('gloo', init_method=options.address, rank=options.rank, world_size=options.processes)
    modes = ['eager', 'compile'] if options.mode == 'both' else [options.mode]
    if 'compile' in modes and not hasattr(torch, 'compile'):
        print('torch_device_train: this PyTorch has no torch.compile', file=sys.stderr)
        modes.remove('compile')
    candidates = list(backends(options))
    for mode in modes:
        best = measure(options, mode, candidates)
        if best is None:
            return 1
        candidates = [best]  # only the best one, because compiling takes long
    return max((other.wait() for other in others), default=0)


if __name__ == '__main__':
    sys.exit(main())
