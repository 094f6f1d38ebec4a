#!/usr/bin/python3
"""Compares the tensors of two folders of checkpoints: weights and the optimizer's state, to 1e-5.

usage: same_checkpoints.py FOLDER FOLDER
"""
import os
import sys

import torch

TOLERANCE = 1e-5
# What has no tensors that the servers keep.
OTHERS = ("rng_state.pth", "training_args.bin", "scheduler.pt")


def load(path):
    if path.endswith(".safetensors"):
        import safetensors.torch  # a script of Lightning needs none
        return safetensors.torch.load_file(path)
    named = {} if torch.__version__.startswith("1.") else {"weights_only": False}
    return torch.load(path, **named)


def tensors_of(value, name=""):
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (dict, list, tuple)):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield from tensors_of(part, f"{name}.{key}")


def has_gradient(name, value):
    """The part that is compared. A key's bias has no gradient but rounding, which AdamW makes as large as any other."""
    return torch.cat(value.chunk(3)[::2]) if name.endswith("attn.c_attn.bias") else value


def distance(left, right):
    return torch.where(left == right, 0.0, (left - right).abs()).max().item()  # infinity is equal to itself


def files_of(folder):
    for path, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if name.endswith((".safetensors", ".pt", ".ckpt", ".bin", ".pth")) and name not in OTHERS:
                yield os.path.relpath(os.path.join(path, name), folder)


def main():
    ours, theirs = sys.argv[1:]
    worst, count = 0.0, 0
    for file in files_of(theirs):
        left, right = (dict(tensors_of(load(os.path.join(folder, file)))) for folder in (ours, theirs))
        assert left.keys() == right.keys(), (file, left.keys() ^ right.keys())
        for name, value in left.items():
            assert value.shape == right[name].shape, (file, name)
            difference = distance(*(has_gradient(name, part).double() for part in (value, right[name])))
            assert difference <= TOLERANCE, (file, name, difference)
            worst, count = max(worst, difference), count + 1
    assert count > 0
    print(f"{count} tensors of checkpoints: {worst:.1e} from the plain script's")


if __name__ == "__main__":
    main()
