#!/usr/bin/python3
"""A worker that runs its own optimizer: softmax regression in numpy with momentum, a schedule and a count of its steps.

usage: external_momentum.py ADDRESS NAME
"""
import json
import os
import sys

import capstan
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "embed", "python"))
import softmax  # noqa: E402


class Momentum:
    """w -= rate * m with m = 0.9 m + g; the rate falls with the number of steps that the optimizer has made."""

    def __init__(self, weights):
        self.steps = 0
        self.weights = {name: np.array(values, np.float32) for name, values in weights.items()}
        self.momentum = {name: np.zeros_like(values) for name, values in self.weights.items()}

    def step(self, gradients):
        self.steps += 1
        rate = np.float32(0.05 / (1 + 0.01 * self.steps))
        for name, weight in self.weights.items():
            momentum = self.momentum[name]
            momentum *= np.float32(0.9)
            momentum += np.asarray(gradients[name])
            weight -= rate * momentum

    def state(self):
        head = json.dumps({"steps": self.steps}).encode()
        return len(head).to_bytes(4, "little") + head + b"".join(m.tobytes() for m in self.momentum.values())

    def load(self, state):
        size = int.from_bytes(state[:4], "little")
        self.steps = json.loads(state[4:4 + size])["steps"]
        flat = np.frombuffer(state[4 + size:], np.float32)
        for momentum in self.momentum.values():
            momentum.reshape(-1)[:], flat = flat[:momentum.size], flat[momentum.size:]


def main(coordinator, name):
    with capstan.connect(coordinator, name) as client:
        client.declare(softmax.TENSORS, numeric_class=f"numpy {np.__version__}")
        samples = client.job["job"]["global_batch"] // client.job["job"]["slots"]
        optimizer = None
        for work in client.work():
            if work.source == "whole":
                optimizer = Momentum(work.weights)
                if work.program_state:
                    optimizer.load(work.program_state)
            elif work.source == "gradient":
                optimizer.step(work.gradients)
            print(work.step, work.source, "keep" if work.keep else "", flush=True)
            if work.keep:
                work.keep_version(optimizer.weights, optimizer.state())
            for slot in work.slots:
                x, labels = softmax.batch(slot.key, samples)
                loss, weight, bias = softmax.loss_and_gradient(optimizer.weights, x, labels)
                gradient = slot.begin(samples)
                np.asarray(gradient["weight"])[:] = weight
                np.asarray(gradient["bias"])[:] = bias
                slot.end(loss, predictions=samples)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except capstan.Error as error:
        sys.exit(f"{type(error).__name__}: {error}")
