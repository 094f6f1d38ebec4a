"""Every optimizer that torch.optim has, against torch.optim: the weights after each of 20 updates must agree.

The argument is the path of optimizer_trace.
"""

import array
import os
import random
import subprocess
import sys

try:
    import torch
except ImportError:
    print("PyTorch (python3-torch) is not installed: the optimizers were not compared with it")
    sys.exit(1 if os.environ.get("CI") == "true" else 77)

COUNT, UPDATES = 1003, 20
DEFAULTS = {"momentum": 0.0, "nesterov": 0, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0.0}
CASES = [
    ("sgd", {"lr": 0.1}),
    ("sgd", {"lr": 0.1, "weight_decay": 0.01}),
    ("momentum", {"lr": 0.01, "momentum": 0.9}),
    ("momentum", {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1}),
    ("momentum", {"lr": 0.01, "momentum": 0.8, "nesterov": 1, "weight_decay": 0.01}),
    ("adam", {"lr": 0.001}),
    ("adam", {"lr": 0.01, "beta1": 0.8, "beta2": 0.95, "eps": 1e-6, "weight_decay": 0.1}),
    ("adamw", {"lr": 0.001, "weight_decay": 0.01}),
    ("adamw", {"lr": 0.01, "beta2": 0.99, "weight_decay": 0.3}),
    ("adagrad", {"lr": 0.01, "eps": 1e-10}),
    ("adagrad", {"lr": 0.1, "eps": 1e-10, "weight_decay": 0.05}),
]


def torch_optimizer(kind, parameter, o):
    if kind in ("sgd", "momentum"):
        return torch.optim.SGD([parameter], lr=o["lr"], momentum=o["momentum"], nesterov=bool(o["nesterov"]),
                               weight_decay=o["weight_decay"])
    if kind == "adagrad":
        return torch.optim.Adagrad([parameter], lr=o["lr"], eps=o["eps"], weight_decay=o["weight_decay"])
    make = torch.optim.Adam if kind == "adam" else torch.optim.AdamW
    return make([parameter], lr=o["lr"], betas=(o["beta1"], o["beta2"]), eps=o["eps"], weight_decay=o["weight_decay"])


def ours(trace, kind, o, weights, gradients):
    keys = ("lr", "momentum", "nesterov", "beta1", "beta2", "eps", "weight_decay")
    header = " ".join([kind] + [repr(o[key]) for key in keys] + [str(COUNT), str(UPDATES)]) + "\n"
    data = header.encode() + weights.tobytes() + b"".join(g.tobytes() for g in gradients)
    output = array.array("f")
    output.frombytes(subprocess.run([trace], input=data, stdout=subprocess.PIPE, check=True, timeout=60).stdout)
    return torch.tensor(output).reshape(UPDATES, COUNT)


def theirs(kind, o, weights, gradients):
    parameter = torch.nn.Parameter(torch.tensor(weights))
    optimizer = torch_optimizer(kind, parameter, o)
    steps = []
    for gradient in gradients:
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
        steps.append(parameter.detach().clone())
    return torch.stack(steps)


def main(trace):
    torch.set_num_threads(1)
    failures = 0
    for kind, options in CASES:
        o = {**DEFAULTS, **options}
        numbers = random.Random(f"{kind} {options}")
        weights = array.array("f", (numbers.gauss(0, 1) for _ in range(COUNT)))
        gradients = [array.array("f", (numbers.gauss(0, 1) * 10 ** numbers.uniform(-4, 1) for _ in range(COUNT)))
                     for _ in range(UPDATES)]
        a, b = ours(trace, kind, o, weights, gradients), theirs(kind, o, weights, gradients)
        error = ((a - b).abs() / (1 + b.abs())).max().item()
        ok = error < 1e-6
        failures += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {kind} {options}: largest relative difference {error:.1e}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
