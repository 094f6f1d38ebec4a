#!/usr/bin/python3
"""Seconds per training step of one PyTorch loop: alone and on capstan's servers, and two processes of it with DDP over gloo
and on capstan's servers. The four take turns in each round; a figure is the median of the rounds' medians.

usage: torch_step_bench.py --bin build/release/bin [-o json] [--steps 40] [--rounds 5] [--only mlp|gpt]

Needs an installed PyTorch. Each process computes with one thread.
"""
import argparse
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
WARMUP = 10
GPT_WIDTH, GPT_LAYERS, GPT_CONTEXT, GPT_LETTERS = 256, 6, 64, 96


def mlp(torch):
    """1.9 M parameters, 64 samples of 784 numbers."""
    width = 1024
    model = torch.nn.Sequential(torch.nn.Linear(784, width), torch.nn.ReLU(), torch.nn.Linear(width, width),
                                torch.nn.ReLU(), torch.nn.Linear(width, 10))
    return model, torch.randn(4096, 784), torch.randint(10, (4096,)), 64


def gpt(torch):
    """4.8 M parameters, 4 samples of 64 letters."""
    nn = torch.nn

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.letters, self.places = nn.Embedding(GPT_LETTERS, GPT_WIDTH), nn.Embedding(GPT_CONTEXT, GPT_WIDTH)
            layer = nn.TransformerEncoderLayer(GPT_WIDTH, 8, 4 * GPT_WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
            self.layers = nn.TransformerEncoder(layer, GPT_LAYERS, nn.LayerNorm(GPT_WIDTH))
            self.head = nn.Linear(GPT_WIDTH, GPT_LETTERS)
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(GPT_CONTEXT), persistent=False)

        def forward(self, x):
            return self.head(self.layers(self.letters(x) + self.places.weight, self.mask)).flatten(0, 1)

    text = torch.randint(GPT_LETTERS, (512, GPT_CONTEXT + 1))
    return Gpt(), text[:, :-1].contiguous(), text[:, 1:].contiguous(), 4


MODELS = {"mlp": mlp, "gpt": gpt}


def train(setup):
    """Trains as one process, and prints the seconds of its steps."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(3)
    model, x, y, batch = MODELS[setup["model"]](torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    data = torch.utils.data.TensorDataset(x, y)
    loader = torch.utils.data.DataLoader(data, batch_size=batch, shuffle=True)
    if setup["by"] == "ddp":
        torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{setup['port']}",
                                             rank=setup["rank"], world_size=setup["processes"])
        model = torch.nn.parallel.DistributedDataParallel(model)
        sampler = torch.utils.data.distributed.DistributedSampler(data, setup["processes"], setup["rank"])
        loader = torch.utils.data.DataLoader(data, batch_size=batch, sampler=sampler)
    if setup["by"] == "capstan":
        import capstan.torch

        trainer = capstan.torch.connect(setup["coordinator"], f"w{setup['rank']}")
        model, optimizer, loader = trainer.prepare(model, optimizer, loader)
    ends = []
    while len(ends) < setup["steps"]:
        for batch_x, batch_y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(batch_x), batch_y.flatten()).backward()
            optimizer.step()
            ends.append(time.monotonic())
            if len(ends) >= setup["steps"]:
                break
    print(json.dumps([b - a for a, b in zip(ends[WARMUP:], ends[WARMUP + 1:])]))
    sys.stdout.flush()
    os._exit(0)  # without the rest of the job, or of DDP's group


def start(setup, environment):
    return subprocess.Popen([sys.executable, "-B", __file__, "--worker", json.dumps(setup)], env=environment,
                            stdout=subprocess.PIPE, text=True)


def seconds(children):
    """The median step of the slowest process."""
    outputs = [child.communicate()[0].splitlines() for child in children]
    if any(not lines for lines in outputs):
        sys.exit("torch_step_bench: a process ended without figures; its words are above")
    return max(statistics.median(json.loads(lines[-1])) for lines in outputs)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def step_of(by, processes, model, arguments, environment, folder):
    """Seconds of a step of `model` in `processes` processes: "plain", "ddp" or "capstan"."""
    setup = {"by": by, "model": model, "steps": arguments.steps, "processes": processes, "port": free_port()}
    if by != "capstan":
        return seconds([start({**setup, "rank": rank}, environment) for rank in range(processes)])
    batch = {"mlp": 64, "gpt": 4}[model]
    job = os.path.join(folder, "job.toml")
    with open(job, "w", encoding="utf-8") as file:
        file.write(f'[job]\nname = "bench"\nsteps = {arguments.steps + 5}\nglobal_batch = {processes * batch}\n'
                   f'slots = {processes}\n[model]\nkind = "client"\n[optimizer]\nkind = "adamw"\n'
                   f"[cluster]\nservers = {arguments.servers}\nworkers = {processes}\n[snapshot]\nevery_steps = 0\n")
    run_dir = tempfile.mkdtemp(dir=folder)
    launch = subprocess.Popen([os.path.join(arguments.bin, "capstan"), "launch", job, "--run-dir", run_dir],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = ""
    for line in launch.stdout:
        said += line
        if found := re.search(r"CAPSTAN_COORDINATOR=(\S+)", line):
            break
    else:
        sys.exit(f"torch_step_bench: capstan launch ended and said:\n{said}")
    try:
        return seconds([start({**setup, "rank": rank, "coordinator": found[1]}, environment)
                        for rank in range(processes)])
    finally:
        launch.terminate()
        launch.communicate()


def figure(model, processes, ours, limit):
    limit_name = "PyTorch alone" if processes == 1 else "PyTorch's DDP over gloo"
    ratios = [a / b for a, b in zip(ours, limit)]
    return {"name": f"torch/{model}-step-{processes}-process", "value": statistics.median(ours) * 1e3, "unit": "ms",
            "limit": statistics.median(limit) * 1e3, "limit_name": f"{limit_name} (less is better)",
            "ratio": statistics.median(ours) / statistics.median(limit), "ratio_least": min(ratios),
            "ratio_most": max(ratios)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", help="folder of the binaries")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--servers", type=int, default=1)
    parser.add_argument("--only", choices=list(MODELS), help="one of the models")
    parser.add_argument("-o", dest="output", choices=["json", "text"], default="text")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return train(json.loads(arguments.worker))
    figures = []
    with tempfile.TemporaryDirectory(prefix="capstan-bench-") as folder:
        prefix = os.path.join(folder, "prefix")
        subprocess.run(["cmake", "--install", os.path.dirname(os.path.abspath(arguments.bin)), "--prefix", prefix],
                       check=True, stdout=subprocess.DEVNULL)
        environment = {**os.environ, "OMP_NUM_THREADS": "1",
                       "PYTHONPATH": os.path.join(prefix, "lib", "python3", "dist-packages")}
        for model in [arguments.only] if arguments.only else MODELS:
            taken = {}
            for _ in range(arguments.rounds):
                for by, processes in (("plain", 1), ("capstan", 1), ("ddp", 2), ("capstan", 2)):
                    taken.setdefault((by, processes), []).append(
                        step_of(by, processes, model, arguments, environment, folder))
            figures += [figure(model, 1, taken["capstan", 1], taken["plain", 1]),
                        figure(model, 2, taken["capstan", 2], taken["ddp", 2])]
    if arguments.output == "json":
        print(json.dumps(figures, indent=1))
        return 0
    for one in figures:
        print("{name}: {value:.1f} {unit}, {limit_name}: {limit:.1f}, ratio {ratio:.2f} ({ratio_least:.2f} to {ratio_most:.2f})"
              .format(**one))
    return 0


if __name__ == "__main__":
    sys.exit(main())
