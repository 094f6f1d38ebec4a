"""The models mlp, convnet and gpt in PyTorch, trained on the weights and batches that dump_inputs wrote.

This file is written from the models' descriptions and with PyTorch's own layers and optimizers, not from capstan's
sources. So if capstan's results agree with these, an error would have to be in two independent places.

`faults` plants an error by name (FAULTS), so that a comparison can show that it would notice.
"""

import array
import fnmatch
import json
import math
import os

import torch
import torch.nn.functional as F

FAULTS = {
    'eps': 'eps a thousand times larger',
    'beta2': 'beta2 nearer to 1 by a hundredth of the way',
    'decay': 'weight decay on every tensor',
    'no clipping': 'gradients are never clipped',
    'rate': 'the learning rate of the step before',
    'slot means': 'the mean of the slots\' means, whatever their sizes',
    'late batch': 'steps 10 and 11 exchange their batches',
    'gelu': 'gelu by erf',
    'mask': 'attention looks one token ahead',
    'untied': 'a head of its own that starts as the token embedding',
    'norm': 'layer norm\'s eps a hundred times larger',
    'ratio': 'trust ratios are 1',
    'norms': 'trust ratios of the first half of each tensor',
    'average': 'pooling takes the mean',
    'channels first': 'the linear layers see channel by channel',
}
FAULTS_OF = {'gelu': 'gpt', 'mask': 'gpt', 'untied': 'gpt', 'norm': 'gpt', 'average': 'convnet',
             'channels first': 'convnet'}  # other faults show in any model
FAULTS_OF_TRUST = {'ratio', 'norms'}


def read_safetensors(path):
    """Returns {name: fp32 tensor}. The format: https://github.com/huggingface/safetensors, "Format"."""
    with open(path, 'rb') as file:
        data = file.read()
    length = int.from_bytes(data[:8], 'little')
    header = json.loads(data[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == '__metadata__':
            continue
        if entry['dtype'] != 'F32':
            raise ValueError(f'{path}: {name} has dtype {entry["dtype"]}')
        begin, end = (8 + length + offset for offset in entry['data_offsets'])
        values = array.array('f')
        values.frombytes(data[begin:end])
        tensors[name] = torch.tensor(values, dtype=torch.float32).reshape(entry['shape'])
    return tensors


def read_batches(folder, job, features):
    """Returns for each step a list: (inputs or tokens, targets) of each slot that has samples."""
    steps = [[] for _ in range(job['job']['steps'])]
    with open(os.path.join(folder, 'batches.jsonl')) as index, open(os.path.join(folder, 'batches.bin'), 'rb') as data:

        def take(kind, *shape):
            values = array.array(kind)
            values.frombytes(data.read(math.prod(shape) * 4))
            return torch.tensor(values).reshape(shape)

        for line in map(json.loads, index):
            samples = line['samples']
            if samples == 0:
                continue
            if job['model']['kind'] == 'gpt':
                context = job['model']['context']
                batch = take('i', samples, context).long(), take('i', samples, context).long()
            else:
                batch = take('f', samples, features), take('i', samples).long()
            steps[line['step']].append(batch)
        if data.read(1):
            raise ValueError(f'{folder}/batches.bin is longer than its index says')
    return steps


def mlp_logits(p, job, x, faults, name='layers'):
    layers = len(job['model']['hidden']) + 1
    for i in range(layers):
        x = F.linear(x, p[f'{name}.{i}.weight'], p[f'{name}.{i}.bias'])
        if i + 1 < layers:
            x = torch.relu(x)
    return x


def convnet_logits(p, job, x, faults):
    """Images and filters are stored channels-last; PyTorch wants the channels after the samples."""
    x = x.reshape(-1, *job['data']['image']).permute(0, 3, 1, 2)
    pool = F.avg_pool2d if 'average' in faults else F.max_pool2d
    for i in range(len(job['model']['channels'])):
        x = F.conv2d(x, p[f'conv.{i}.weight'].permute(0, 3, 1, 2), p[f'conv.{i}.bias'], padding=1)
        x = pool(torch.relu(x), 2)
    x = x if 'channels first' in faults else x.permute(0, 2, 3, 1)
    return mlp_logits(p, job, x.flatten(1), faults, 'linear')


def gelu(x, faults):
    if 'gelu' in faults:
        return F.gelu(x)
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def gpt_logits(p, job, tokens, faults):
    model = job['model']
    width, heads = model['width'], model['heads']
    samples, length = tokens.shape

    def linear(x, name):
        return F.linear(x, p[name + '.weight'], p[name + '.bias'])

    def norm(x, name):
        eps = 1e-3 if 'norm' in faults else 1e-5
        return F.layer_norm(x, (width,), p[name + '.weight'], p[name + '.bias'], eps)

    def attention(x, name):
        q, k, v = (part.reshape(samples, length, heads, width // heads).transpose(1, 2)
                   for part in linear(x, name + '.c_attn').split(width, dim=2))
        scores = q @ k.transpose(2, 3) / math.sqrt(width // heads)
        future = torch.ones(length, length, dtype=torch.bool).triu(2 if 'mask' in faults else 1)
        mixed = scores.masked_fill(future, -math.inf).softmax(dim=3) @ v
        return linear(mixed.transpose(1, 2).reshape(samples, length, width), name + '.c_proj')

    x = F.embedding(tokens, p['wte.weight']) + p['wpe.weight'][:length]
    for i in range(model['layers']):
        x = x + attention(norm(x, f'h.{i}.ln_1'), f'h.{i}.attn')
        x = x + linear(gelu(linear(norm(x, f'h.{i}.ln_2'), f'h.{i}.mlp.c_fc'), faults), f'h.{i}.mlp.c_proj')
    return F.linear(norm(x, 'ln_f'), p['head'] if 'untied' in faults else p['wte.weight'])


def decays(optimizer, name, parameter):
    """Whether weight decay applies: to matrices and filters, but not to biases, norms, and the job's exceptions."""
    return parameter.dim() >= 2 and not any(fnmatch.fnmatch(name, pattern) for pattern in optimizer['no_decay'])


def learning_rate(job, step):
    """Returns the rate: linear from min_lr to lr during the warm-up, then half a cosine back to min_lr."""
    high, low = job['optimizer']['lr'], job['schedule']['min_lr']
    warmup, steps = job['schedule']['warmup_steps'], job['job']['steps']
    if step < warmup:
        return low + (high - low) * step / warmup
    return low + (high - low) * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2


class Trust(torch.optim.Optimizer):
    """LARS (You et al. 2017) and LAMB (You et al. 2020, algorithm 2), from the papers; PyTorch has neither."""

    def __init__(self, groups, job_optimizer, faults):
        super().__init__(groups, {'lr': 0.0})
        self.o, self.faults, self.steps = job_optimizer, faults, 0

    def ratio(self, parameter, direction):
        if 'ratio' in self.faults or (self.o['kind'] == 'lars' and parameter.dim() < 2):
            return 1.0
        if 'norms' in self.faults:
            parameter, direction = (x.flatten()[:(x.numel() + 1) // 2] for x in (parameter, direction))
        weights, update = parameter.norm().item(), direction.norm().item()
        return self.o.get('trust_coefficient', 1.0) * weights / update if weights > 0 and update > 0 else 1.0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        for group in self.param_groups:
            for parameter in group['params']:
                decay = group['weight_decay'] * parameter
                state = self.state[parameter]
                if self.o['kind'] == 'lars':
                    direction = parameter.grad + decay
                    change = group['lr'] * self.ratio(parameter, direction) * direction
                    state['v'] = change + self.o['momentum'] * state['v'] if 'v' in state else change
                    parameter -= state['v']
                    continue
                for i, (beta, value) in enumerate(zip(self.o['betas'], (parameter.grad, parameter.grad.square()))):
                    state[i] = (1 - beta) * value + beta * state.get(i, torch.zeros_like(parameter))
                mean, square = (state[i] / (1 - beta ** self.steps) for i, beta in enumerate(self.o['betas']))
                direction = mean / (square.sqrt() + self.o['eps']) + decay
                parameter -= group['lr'] * self.ratio(parameter, direction) * direction


def make_optimizer(job, parameters, faults):
    o = job['optimizer']
    groups = [{'params': [], 'weight_decay': o['weight_decay']}, {'params': [], 'weight_decay': 0.0}]
    for name, parameter in parameters.items():
        groups[0 if 'decay' in faults or decays(o, name, parameter) else 1]['params'].append(parameter)
    if o['kind'] in ('lars', 'lamb'):
        return Trust(groups, o, faults)
    beta1, beta2 = o['betas']
    return torch.optim.AdamW(groups, lr=o['lr'], eps=o['eps'] * (1000 if 'eps' in faults else 1),
                             betas=(beta1, beta2 + (1 - beta2) / 100 if 'beta2' in faults else beta2))


class Training:
    """Runs a job: iterating trains one step at a time and yields {'loss', 'lr', 'grad_norm'}.

    At the end `parameters` are the final ones.
    """

    def __init__(self, folder, job, faults=(), dtype=torch.float32):
        initial = read_safetensors(os.path.join(folder, 'initial.safetensors'))
        kind = job['model']['kind']
        features = initial['layers.0.weight'].shape[1] if kind == 'mlp' else math.prod(job['data'].get('image', [0]))
        self.job, self.faults, self.dtype = job, set(faults), dtype
        self.parameters = {name: torch.nn.Parameter(value.to(dtype)) for name, value in initial.items()}
        if 'untied' in self.faults:
            self.parameters['head'] = torch.nn.Parameter(initial['wte.weight'].to(dtype))
        self.steps = read_batches(folder, job, features)
        if 'late batch' in self.faults:
            self.steps[10], self.steps[11] = self.steps[11], self.steps[10]
        self.optimizer = make_optimizer(job, self.parameters, self.faults)

    def loss(self, slots):
        logits = {'gpt': gpt_logits, 'convnet': convnet_logits, 'mlp': mlp_logits}[self.job['model']['kind']]
        losses = []
        for inputs, targets in slots:
            inputs = inputs.to(self.dtype) if inputs.is_floating_point() else inputs
            outputs = logits(self.parameters, self.job, inputs, self.faults)
            losses.append(F.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction='none'))
        if 'slot means' in self.faults:
            return torch.stack([slot.mean() for slot in losses]).mean()
        return torch.cat(losses).mean()

    def __iter__(self):
        clip_norm = math.inf if 'no clipping' in self.faults else self.job['optimizer']['clip_norm']
        for step, slots in enumerate(self.steps):
            lr = learning_rate(self.job, max(0, step - 1) if 'rate' in self.faults else step)
            for group in self.optimizer.param_groups:
                group['lr'] = lr
            self.optimizer.zero_grad()
            loss = self.loss(slots)
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(self.parameters.values(), clip_norm)
            self.optimizer.step()
            yield {'loss': loss.item(), 'lr': lr, 'grad_norm': norm.item()}
