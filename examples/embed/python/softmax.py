#!/usr/bin/python3
"""Your own trainer: softmax regression in numpy. Any number of copies may run, and come and go.

usage: softmax.py [ADDRESS [NAME]]       default: the values that `capstan launch` passes to a program
"""
import sys

import capstan
import numpy as np

FEATURES, CLASSES = 20, 5
TENSORS = [capstan.Tensor("weight", (FEATURES, CLASSES), initial="normal", scale=0.1),
           capstan.Tensor("bias", (CLASSES,))]


def batch(key, samples):
    """Returns the samples of a slot: points around the corner of their class. They depend only on (seed, step, slot)."""
    seed, step, slot = key
    random = np.random.default_rng((seed, step, slot))
    labels = random.integers(CLASSES, size=samples)
    corners = np.random.default_rng(seed).normal(size=(CLASSES, FEATURES))
    return corners[labels] + random.normal(size=(samples, FEATURES)), labels


def loss_and_gradient(weights, x, labels):
    """Returns the sum of the cross entropy, and the gradient of its mean for both tensors."""
    logits = x @ np.asarray(weights["weight"], np.float64) + np.asarray(weights["bias"], np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    log_sums = np.log(np.exp(logits).sum(axis=1))
    rows = np.arange(len(labels))
    error = np.exp(logits - log_sums[:, None])
    error[rows, labels] -= 1
    return (log_sums - logits[rows, labels]).sum(), x.T @ error / len(labels), error.mean(axis=0)


def main(coordinator=None, name=None):
    with capstan.connect(coordinator, name) as client:
        client.declare(TENSORS, numeric_class=f"numpy {np.__version__}")
        samples = client.job["job"]["global_batch"] // client.job["job"]["slots"]
        for work in client.work():
            for slot in work.slots:
                x, labels = batch(slot.key, samples)
                loss, weight, bias = loss_and_gradient(work.weights, x, labels)
                gradient = slot.begin(samples)
                np.asarray(gradient["weight"])[:] = weight * work.loss_scale
                np.asarray(gradient["bias"])[:] = bias * work.loss_scale
                slot.end(loss, predictions=samples)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except capstan.Error as error:
        sys.exit(f"{type(error).__name__}: {error}")
