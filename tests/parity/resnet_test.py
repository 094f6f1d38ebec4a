#!/usr/bin/python3
"""Residual networks compared with PyTorch's: one training step's gradients, running statistics and losses; then loss curves.

usage: resnet_test.py --resnet-step PROGRAM

The network is written from the papers and torchvision's names of tensors, not from capstan's sources. Every tensor's
gradient must agree within LIMIT of its norm. Then errors are planted in PyTorch's side, and each must be noticed.
PyTorch computes in fp64: in fp32 its own gradients are a few per cent off if one of millions of sums has the wrong sign
before a ReLU. For the same reason only a curve in fp64 on both sides can be long; fp32 and bf16 take three steps.

Exit code 0 passed, 1 failed, 77 PyTorch is missing (with CI=true in the environment: 1).
"""

import argparse
import array
import json
import os
import subprocess
import sys
import tempfile

from require_torch import require_torch

torch = require_torch('no resnet was compared with it')
F = torch.nn.functional

from train_with_torch import read_safetensors

LIMIT = 1e-3
CURVE_CASE = 'small image'
CURVE_LIMITS = {'double': (50, 1e-6), 'fp32': (3, 1e-3), 'bf16': (3, 2e-2)}  # steps, relative deviation of the loss
CURVE_RATE = 0.05
# Each case: the image's height, width and channels; classes; the network's depth and width; samples.
CASES = {
    'small image': (32, 32, 3, 10, 18, 8, 4),
    'odd image': (31, 17, 1, 7, 18, 5, 6),
    'large image': (72, 80, 3, 10, 18, 8, 4),
    'bottlenecks': (32, 32, 3, 10, 50, 4, 6),
    'bottlenecks, large image': (96, 65, 3, 5, 50, 4, 4),
}
BLOCKS = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}
FAULTS = {
    'eps': ('small image', 'batch norm\'s eps a hundred times larger'),
    'momentum': ('small image', 'the running variance is the biased one'),
    'stride': ('bottlenecks', 'a bottleneck strides in its first convolution'),
    'order': ('small image', 'ReLU before the residual is added'),
    'pool': ('large image', 'pooling takes the mean'),
}


class Resnet:
    """The forward pass on tensors by name. In training `seen` gets the mean and variance of each batch norm's input."""

    def __init__(self, tensors, case, fault, training):
        self.t, self.fault, self.training = tensors, fault, training
        self.height, self.width, self.channels, _, self.depth, _, _ = case
        self.seen = {}

    def conv(self, x, name, stride=1):
        weight = self.t[name + '.weight'].permute(0, 3, 1, 2)
        return F.conv2d(x, weight, stride=stride, padding=weight.shape[2] // 2)

    def norm(self, x, name):
        mean, variance = self.t[name + '.running_mean'], self.t[name + '.running_var']
        if self.training:
            seen = x.detach().transpose(0, 1).flatten(1)
            self.seen[name + '.running_mean'] = seen.mean(1)
            self.seen[name + '.running_var'] = seen.var(1, unbiased=self.fault != 'momentum')
        return F.batch_norm(x, mean.clone(), variance.clone(), self.t[name + '.weight'], self.t[name + '.bias'],
                            self.training, 0.1, 1e-3 if self.fault == 'eps' else 1e-5)

    def block(self, x, name, stride):
        y = x
        last = 2 if self.depth < 50 else 3
        strided = 1 if self.depth < 50 or self.fault == 'stride' else 2
        for i in range(1, last + 1):
            y = self.norm(self.conv(y, f'{name}.conv{i}', stride if i == strided else 1), f'{name}.bn{i}')
            y = torch.relu(y) if i < last or self.fault == 'order' else y
        if f'{name}.downsample.0.weight' in self.t:
            x = self.norm(self.conv(x, f'{name}.downsample.0', stride), f'{name}.downsample.1')
        return torch.relu(x + y)

    def logits(self, x):
        x = x.permute(0, 3, 1, 2)
        large = max(self.height, self.width) > 64
        x = torch.relu(self.norm(self.conv(x, 'conv1', 2 if large else 1), 'bn1'))
        if large:
            x = F.avg_pool2d(x, 3, 2, 1) if self.fault == 'pool' else F.max_pool2d(x, 3, 2, 1)
        for stage, blocks in enumerate(BLOCKS[self.depth]):
            for i in range(blocks):
                x = self.block(x, f'layer{stage + 1}.{i}', 2 if stage > 0 and i == 0 else 1)
        return F.linear(x.mean((2, 3)), self.t['fc.weight'], self.t['fc.bias'])


def read(path, kind):
    values = array.array(kind)
    with open(path, 'rb') as file:
        values.frombytes(file.read())
    return torch.tensor(values)


def compare(folder, case, fault=None):
    """Returns (relative distance, name) of the tensor or loss of a step that differs most from PyTorch's."""
    tensors, ours = ({name: value.double() for name, value in read_safetensors(os.path.join(folder, file)).items()}
                     for file in ('weights.safetensors', 'gradients.safetensors'))
    with open(os.path.join(folder, 'losses.json')) as file:
        losses = json.load(file)
    inputs, targets = read_batch(folder, case)
    parameters = {name: value.requires_grad_() for name, value in tensors.items() if '.running_' not in name}
    network = Resnet(tensors, case, fault, training=True)
    loss = F.cross_entropy(network.logits(inputs), targets)
    loss.backward()
    with torch.no_grad():
        evaluated = F.cross_entropy(Resnet(tensors, case, fault, training=False).logits(inputs), targets)
    theirs = {**{name: value.grad for name, value in parameters.items()}, **network.seen}
    if set(theirs) != set(ours):
        raise ValueError(f'tensors differ: {sorted(set(ours) ^ set(theirs))}')
    distances = [(float((ours[name] - theirs[name]).norm() / theirs[name].norm()), name) for name in ours]
    for what, value in (('train', loss), ('evaluate', evaluated)):
        distances.append((abs(losses[what] / case[6] - value.item()) / value.item(), f'{what} loss'))
    return max(distances)


def read_batch(folder, case):
    inputs = read(os.path.join(folder, 'inputs.bin'), 'f').reshape(case[6], *case[:3]).double()
    return inputs, read(os.path.join(folder, 'targets.bin'), 'i').long()


def torch_curve(folder, case, steps, fault=None):
    """Returns the losses of PyTorch's gradient descent on one batch, in fp64."""
    tensors = {name: value.double() for name, value in read_safetensors(os.path.join(folder, 'weights.safetensors')).items()}
    parameters = [value.requires_grad_() for name, value in tensors.items() if '.running_' not in name]
    descent = torch.optim.SGD(parameters, lr=CURVE_RATE)
    inputs, targets = read_batch(folder, case)
    losses = []
    for _ in range(steps):
        descent.zero_grad()
        loss = F.cross_entropy(Resnet(tensors, case, fault, training=True).logits(inputs), targets)
        loss.backward()
        descent.step()
        losses.append(loss.item())
    return losses


def compare_curve(folder, case, kind, fault=None):
    with open(os.path.join(folder, 'curves.json')) as file:
        ours = json.load(file)[kind]
    steps, _ = CURVE_LIMITS[kind]
    theirs = torch_curve(folder, case, steps, fault)
    if len(ours) != steps:
        raise ValueError(f'{len(ours)} steps in {kind}, not {steps}')
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs)), theirs


def compare_curves(folder, case):
    passed = True
    for kind, (steps, limit) in CURVE_LIMITS.items():
        distance, losses = compare_curve(folder, case, kind)
        passed = passed and distance < limit
        print(f'{"ok" if distance < limit else "FAIL":6}{steps:3} steps in {kind:17}{distance:.1e}  '
              f'loss {losses[0]:.3f} to {losses[-1]:.3f}', flush=True)
        noticed, _ = compare_curve(folder, case, kind, 'order')
        passed = passed and noticed > limit
        print(f'{"ok" if noticed > limit else "FAIL":6}{"":28}{noticed:.1e}  {FAULTS["order"][1]}', flush=True)
    return passed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--resnet-step', required=True)
    program = parser.parse_args().resnet_step
    torch.set_num_threads(1)
    passed = True
    with tempfile.TemporaryDirectory(prefix='capstan-resnet-') as root:
        for name, case in CASES.items():
            folder = os.path.join(root, name)
            os.makedirs(folder)
            subprocess.run([program, *map(str, case), folder], check=True, timeout=300)
            distance, what = compare(folder, case)
            passed = passed and distance < LIMIT
            print(f'{"ok" if distance < LIMIT else "FAIL":6}{name:28}{distance:.1e}  {what}', flush=True)
        passed = compare_curves(os.path.join(root, CURVE_CASE), CASES[CURVE_CASE]) and passed
        print('errors planted in PyTorch\'s side, and what shows them')
        for fault, (name, text) in FAULTS.items():
            distance, what = compare(os.path.join(root, name), CASES[name], fault)
            passed = passed and distance > LIMIT
            print(f'{"ok" if distance > LIMIT else "FAIL":6}{name:28}{distance:.1e}  {what:32}{text}', flush=True)
    return 0 if passed else 1


if __name__ == '__main__':
    sys.exit(main())
