#!/usr/bin/python3
"""Follows the job that softmax.py trains, without taking part in it: the accuracy of each version on held-out samples.

usage: evaluate.py ADDRESS [FILE]    ADDRESS: of the coordinator; FILE: where the last version's weights go, as numpy's .npz
"""
import sys

import capstan
import numpy as np
from softmax import batch

SAMPLES = 2000
HELD_OUT = 2**32 - 1  # a step that no job reaches, so no worker trains on its samples


def accuracy(weights, x, labels):
    logits = x @ np.asarray(weights["weight"]) + np.asarray(weights["bias"])
    return (logits.argmax(axis=1) == labels).mean()


def main(coordinator, file=None):
    with capstan.Reader(coordinator) as reader:
        x, labels = batch((reader.job["job"]["seed"], HELD_OUT, 0), SAMPLES)
        for version in reader.follow():
            print(f"step {version.step}: {accuracy(version.weights, x, labels):.1%} of {SAMPLES} are right"
                  f"{', the last version' if version.done else ''}", flush=True)
            if version.done and file is not None:
                np.savez(file, **{name: np.asarray(values) for name, values in version.weights.items()})


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except capstan.Error as error:
        sys.exit(f"{type(error).__name__}: {error}")
