#!/usr/bin/python3
"""Seconds per training step of a PyTorch script: two processes on capstan's servers, next to two with DDP over gloo.

usage: torch_step_bench.py --bin build/release/bin [-o json] [--steps 60]      needs an installed PyTorch
"""
import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
WARMUP = 10


def mlp(torch):
    width = 1024
    model = torch.nn.Sequential(torch.nn.Linear(784, width), torch.nn.ReLU(), torch.nn.Linear(width, width),
                                torch.nn.ReLU(), torch.nn.Linear(width, 10))
    x, y = torch.randn(4096, 784), torch.randint(10, (4096,))
    return model, torch.utils.data.TensorDataset(x, y), torch.nn.functional.cross_entropy, 64


def gpt(torch):
    sys.path.insert(0, os.path.join(ROOT, "examples", "embed", "pytorch"))
    import gpt_model

    data = gpt_model.Letters()
    return (gpt_model.Gpt(), data, lambda out, y: torch.nn.functional.cross_entropy(out.flatten(0, 1), y.flatten()), 8)


MODELS = {"mlp": mlp, "gpt": gpt}


def worker(setup):
    """Trains as one of two processes, and prints the seconds of its steps."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(3)
    model, data, criterion, batch = MODELS[setup["model"]](torch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    if setup["by"] == "ddp":
        torch.distributed.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{setup['port']}",
                                             rank=setup["rank"], world_size=2)
        model = torch.nn.parallel.DistributedDataParallel(model)
        sampler = torch.utils.data.distributed.DistributedSampler(data, 2, setup["rank"])
        loader = torch.utils.data.DataLoader(data, batch_size=batch, sampler=sampler)
        trainer = None
    else:
        import capstan.torch

        trainer = capstan.torch.connect(setup["coordinator"], f"w{setup['rank']}")
        loader = torch.utils.data.DataLoader(data, batch_size=batch, shuffle=True)
        model, optimizer, loader = trainer.prepare(model, optimizer, loader)
    ends = []
    while len(ends) < setup["steps"]:
        for x, y in loader:
            loss = criterion(model(x), y)
            optimizer.zero_grad()
            trainer.backward(loss) if trainer else loss.backward()
            optimizer.step()
            ends.append(time.monotonic())
            if len(ends) >= setup["steps"]:
                break
    print(json.dumps([b - a for a, b in zip(ends[WARMUP:], ends[WARMUP + 1:])]))
    sys.stdout.flush()
    os._exit(0)


def run_two(setups, environment):
    children = [subprocess.Popen([sys.executable, "-B", __file__, "--worker", json.dumps(setup)], env=environment,
                                 stdout=subprocess.PIPE, text=True) for setup in setups]
    seconds = [statistics.median(json.loads(child.communicate()[0].splitlines()[-1])) for child in children]
    return max(seconds)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def by_capstan(arguments, model, environment, folder):
    _, _, _, batch = MODELS[model](__import__("torch"))
    job = os.path.join(folder, "job.toml")
    with open(job, "w") as file:
        file.write(f'[job]\nname = "bench"\nsteps = {arguments.steps + 5}\nglobal_batch = {2 * batch}\nslots = 2\n[model]\n'
                   'kind = "client"\n[optimizer]\nkind = "adamw"\n[cluster]\nservers = 2\nworkers = 2\n')
    launch = subprocess.Popen([os.path.join(arguments.bin, "capstan"), "launch", job, "--run-dir",
                               os.path.join(folder, model)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    coordinator = next(line for line in launch.stdout if "CAPSTAN_COORDINATOR=" in line).strip().split("=")[-1]
    try:
        return run_two([{"by": "capstan", "model": model, "steps": arguments.steps, "rank": rank,
                         "coordinator": coordinator} for rank in range(2)], environment)
    finally:
        launch.terminate()
        launch.communicate()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", help="folder of the binaries")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("-o", dest="output", choices=["json", "text"], default="text")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return worker(json.loads(arguments.worker))
    figures = []
    with tempfile.TemporaryDirectory(prefix="capstan-bench-") as folder:
        prefix = os.path.join(folder, "prefix")
        subprocess.run(["cmake", "--install", os.path.dirname(os.path.abspath(arguments.bin)), "--prefix", prefix],
                       check=True, stdout=subprocess.DEVNULL)
        environment = {**os.environ, "OMP_NUM_THREADS": "1",
                       "PYTHONPATH": os.path.join(prefix, "lib", "python3", "dist-packages")}
        for model in MODELS:
            ours = by_capstan(arguments, model, environment, folder)
            port = free_port()
            limit = run_two([{"by": "ddp", "model": model, "steps": arguments.steps, "rank": rank, "port": port}
                             for rank in range(2)], environment)
            figures.append({"name": f"torch/{model}-step", "value": ours * 1e3, "unit": "ms", "limit": limit * 1e3,
                            "limit_name": "PyTorch's DDP over gloo (less is better)", "ratio": ours / limit})
    if arguments.output == "json":
        print(json.dumps(figures, indent=1))
    else:
        for figure in figures:
            print("{name}: {value:.1f} {unit}, {limit_name}: {limit:.1f}, ratio {ratio:.2f}".format(**figure))
    shutil.rmtree(os.path.join(ROOT, "examples", "embed", "pytorch", "__pycache__"), ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
