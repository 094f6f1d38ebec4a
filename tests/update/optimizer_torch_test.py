"""Every optimizer that torch.optim has, with its options, against torch.optim. The weights after each of 100 updates must
agree. Each case has two groups with different numbers, learning rates that change with each step, and clipping.

The argument is the path of optimizer_trace. Lion, which torch.optim lacks, is compared with its paper's formulas.
"""

import array
import inspect
import math
import os
import random
import subprocess
import sys

try:
    import torch
except ImportError:
    print("PyTorch (python3-torch) is not installed: the optimizers were not compared with it")
    sys.exit(1 if os.environ.get("CI") == "true" else 77)

COUNT, UPDATES, LIMIT = 1003, 100, 1e-6
JOB_OPTIONS = ("amsgrad", "centered")  # of the whole job
EMULATED = ("maximize", "decoupled_weight_decay")  # this test applies them itself to classes that lack them


class Lion(torch.optim.Optimizer):
    """Chen et al., "Symbolic discovery of optimization algorithms", 2023, algorithm 2."""

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                mean = self.state[parameter].setdefault("exp_avg", torch.zeros_like(parameter))
                beta1, beta2 = group["betas"]
                update = (mean * beta1 + parameter.grad * (1 - beta1)).sign()
                parameter.mul_(1 - group["lr"] * group["weight_decay"]).add_(update, alpha=-group["lr"])
                mean.mul_(beta2).add_(parameter.grad, alpha=1 - beta2)


def pair(**options):
    """The options of two groups: a value is for both, a list has one for each."""
    return [{key: value[i] if isinstance(value, list) else value for key, value in options.items()} for i in (0, 1)]


BETAS = [(0.9, 0.999), (0.8, 0.95)]
CASES = [
    ("sgd", torch.optim.SGD, pair(lr=[0.1, 0.05])),
    ("sgd", torch.optim.SGD, pair(lr=[0.1, 0.05], weight_decay=[0.01, 0.0], maximize=[True, False])),
    ("momentum", torch.optim.SGD, pair(lr=[0.01, 0.02], momentum=[0.9, 0.8])),
    ("momentum", torch.optim.SGD, pair(lr=0.01, momentum=[0.9, 0.0], weight_decay=[0.1, 0.0], dampening=[0.3, 0.1])),
    ("momentum", torch.optim.SGD, pair(lr=0.01, momentum=0.8, nesterov=[True, False], maximize=True)),
    ("adam", torch.optim.Adam, pair(lr=[0.001, 0.01], betas=BETAS)),
    ("adam", torch.optim.Adam, pair(lr=[0.001, 0.01], betas=BETAS, eps=[1e-8, 1e-6], weight_decay=[0.1, 0.0],
                                    maximize=[False, True])),
    ("adam", torch.optim.Adam, pair(lr=[0.001, 0.01], betas=BETAS, amsgrad=True)),
    ("adamw", torch.optim.AdamW, pair(lr=[0.001, 0.01], betas=BETAS, weight_decay=[0.01, 0.3])),
    ("adamw", torch.optim.AdamW, pair(lr=[0.001, 0.01], betas=BETAS, amsgrad=True, maximize=[True, False])),
    ("adagrad", torch.optim.Adagrad, pair(lr=[0.01, 0.1])),
    ("adagrad", torch.optim.Adagrad, pair(lr=[0.01, 0.1], lr_decay=[0.1, 0.0], weight_decay=[0.0, 0.05],
                                          initial_accumulator_value=0.5, maximize=True)),
    ("rmsprop", torch.optim.RMSprop, pair(lr=[0.001, 0.01], alpha=[0.99, 0.9])),
    ("rmsprop", torch.optim.RMSprop, pair(lr=[0.001, 0.01], alpha=[0.99, 0.9], momentum=[0.9, 0.5],
                                          weight_decay=[0.0, 0.1], maximize=[True, False])),
    ("rmsprop", torch.optim.RMSprop, pair(lr=[0.001, 0.01], centered=True, eps=[1e-4, 1e-3])),
    ("rmsprop", torch.optim.RMSprop, pair(lr=[0.001, 0.002], centered=True, momentum=[0.9, 0.5], eps=1e-3)),
    ("adadelta", torch.optim.Adadelta, pair(lr=[1.0, 0.5], rho=[0.9, 0.95], eps=[1e-6, 1e-5])),
    ("adadelta", torch.optim.Adadelta, pair(lr=1.0, weight_decay=[0.1, 0.0], maximize=[False, True])),
    ("adamax", torch.optim.Adamax, pair(lr=[0.002, 0.01], betas=BETAS)),
    ("adamax", torch.optim.Adamax, pair(lr=0.002, betas=BETAS, eps=[1e-8, 1e-4], weight_decay=0.1,
                                        maximize=[True, False])),
    ("nadam", torch.optim.NAdam, pair(lr=[0.002, 0.01], betas=BETAS)),
    ("nadam", torch.optim.NAdam, pair(lr=0.002, betas=BETAS, momentum_decay=[0.1, 0.0], weight_decay=0.1,
                                      maximize=[True, False])),
    ("nadam", torch.optim.NAdam, pair(lr=0.002, weight_decay=[0.1, 0.2], decoupled_weight_decay=[True, False])),
    ("radam", torch.optim.RAdam, pair(lr=[0.001, 0.01], betas=BETAS)),
    ("radam", torch.optim.RAdam, pair(lr=0.001, betas=BETAS, weight_decay=0.1, maximize=[False, True],
                                      decoupled_weight_decay=[True, False])),
    ("lion", Lion, pair(lr=[0.0001, 0.001], betas=[(0.9, 0.99), (0.95, 0.98)], weight_decay=[0.1, 0.0],
                        maximize=[True, False])),
]
CLIPS = [{}, {"norm": 5.0}, {"value": 0.5}]


def rate_at(step, lr):
    """A warm-up of ten steps and half a cosine."""
    return lr * min(1.0, (step + 1) / 10) * (0.6 + 0.4 * math.cos(math.pi * step / UPDATES))


def ours(trace, kind, groups, options, clip, weights, gradients):
    job = [f"{option}=1" for option in JOB_OPTIONS if groups[0].get(option)]
    if kind == "rmsprop" and any(group.get("momentum") for group in groups):
        job.append("keeps_momentum=1")
    lines = [" ".join([kind, str(COUNT), str(UPDATES), *job])]
    for group in groups:
        words = dict(group)
        words.update(zip(("beta1", "beta2"), words.pop("betas", ())))
        words.update({"alpha": words.pop("rho")} if "rho" in words else {})
        lines.append(" ".join(f"{key}={float(value)!r}" for key, value in words.items()))
    for step, gradient in enumerate(gradients):
        norm = math.sqrt(sum(value * value for value in gradient))
        factor = min(1.0, clip["norm"] / (norm + 1e-6)) if "norm" in clip else 1.0
        rates = [repr(rate_at(step, group["lr"])) for group in options]
        lines.append(" ".join([*rates, repr(factor), repr(clip.get("value", 0.0))]))
    data = ("\n".join(lines) + "\n").encode() + weights.tobytes() + b"".join(g.tobytes() for g in gradients)
    output = array.array("f")
    output.frombytes(subprocess.run([trace], input=data, stdout=subprocess.PIPE, check=True, timeout=60).stdout)
    return torch.tensor(output).reshape(UPDATES, COUNT)


def theirs(make, options, clip, weights, gradients):
    parts = [torch.nn.Parameter(part.clone()) for part in torch.tensor(weights).split([COUNT // 2, COUNT - COUNT // 2])]
    known = inspect.signature(make).parameters
    lacking = [option for option in EMULATED if option not in known]
    # Options that torch takes from the constructor only. Before PyTorch 2.0, NAdam without foreach multiplies one
    # momentum twice.
    of_all = {key: options[0][key] for key in ("initial_accumulator_value",) if key in options[0]}
    of_all.update({"foreach": True} if make is torch.optim.NAdam else {})
    optimizer = make([{"params": [part], **known_options(group, lacking)} for part, group in zip(parts, options)],
                     **of_all)
    steps = []
    for step, gradient in enumerate(gradients):
        for part, own in zip(parts, torch.tensor(gradient).split([COUNT // 2, COUNT - COUNT // 2])):
            part.grad = own.clone()
        if "norm" in clip:
            torch.nn.utils.clip_grad_norm_(parts, clip["norm"])
        if "value" in clip:
            torch.nn.utils.clip_grad_value_(parts, clip["value"])
        for part, group, own in zip(parts, optimizer.param_groups, options):
            group["lr"] = rate_at(step, own["lr"])
            if "maximize" in lacking and own.get("maximize"):
                part.grad.neg_()
            if "decoupled_weight_decay" in lacking and own.get("decoupled_weight_decay"):
                part.data.mul_(1 - group["lr"] * own["weight_decay"])
        optimizer.step()
        steps.append(torch.cat([part.detach() for part in parts]))
    return torch.stack(steps)


def known_options(group, lacking):
    known = {key: value for key, value in group.items() if key not in lacking}
    if "decoupled_weight_decay" in lacking and group.get("decoupled_weight_decay"):
        known["weight_decay"] = 0.0
    return known


def main(trace):
    torch.set_num_threads(1)
    print(f"PyTorch {torch.__version__}")
    failures = 0
    for kind, make, options in CASES:
        numbers = random.Random(f"{kind} {options}")
        weights = array.array("f", (numbers.gauss(0, 1) for _ in range(COUNT)))
        gradients = [array.array("f", (numbers.gauss(0, 1) * 10 ** numbers.uniform(-4, 1) for _ in range(COUNT)))
                     for _ in range(UPDATES)]
        defaults = defaults_of(make)
        groups = [{**defaults, **group} for group in options]
        errors = []
        for clip in CLIPS:
            a = ours(trace, kind, groups, options, clip, weights, gradients)
            b = theirs(make, options, clip, weights, gradients)
            errors.append(((a - b).abs() / (1 + b.abs())).max().item())
        ok = max(errors) < LIMIT
        failures += not ok
        changed = ", ".join(f"{key}={options[0][key]}|{options[1][key]}" for key in options[0])
        print(f"{'ok  ' if ok else 'FAIL'} {kind} {changed}: largest relative difference {max(errors):.1e}")
    return 1 if failures else 0


def defaults_of(make):
    """The numbers of a group that optimizer_trace needs, as the class has them."""
    group = make([torch.nn.Parameter(torch.zeros(1))], lr=1.0).param_groups[0]
    wanted = ("betas", "eps", "weight_decay", "momentum", "alpha", "rho", "momentum_decay", "lr_decay")
    return {key: group[key] for key in wanted if key in group}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
