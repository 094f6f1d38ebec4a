#!/usr/bin/python3
"""Whole training runs compared with PyTorch's: the same initial weights and batches, 50 steps, AdamW, LARS and LAMB,
clipping.

usage: parity_test.py --dump-inputs PROGRAM --local-train PROGRAM [--capstan PROGRAM] [--keep FOLDER] [--double]

Every job (mlp, convnet and gpt with 1 slot and with 3; an mlp by lars and by lamb; a gpt in bf16 and in fp16) is launched
with 2 servers and 2 workers. The final weights must be those of local_train, bit by bit. The weights, and the loss, learning
rate and gradient norm of every step, must agree with PyTorch's. Then errors are planted in PyTorch's side, one by one, and
each must be noticed. Without --capstan, local_train's results are compared with PyTorch's.

Exit code 0 passed, 1 failed, 77 PyTorch is missing (with CI=true in the environment: 1).
"""

import argparse
import hashlib
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time

from require_torch import require_torch

torch = require_torch('no training run was compared with it')

from train_with_torch import FAULTS, FAULTS_OF, FAULTS_OF_TRUST, Training, read_safetensors

STEPS = 50
IMAGE = [9, 8, 3]
LAUNCH_SECONDS = 300  # a build with sanitizers is slow
# The largest relative deviations that pass. Rounding causes 3e-7 in the loss, and in the weights 1e-6 of the distance
# that training moved them. Limits are tight, so that small errors show.
LIMITS = {'loss': 1e-5, 'lr': 1e-6, 'grad_norm': 1e-4, 'weights': 2e-5}
# The limits of jobs that compute with and send 16-bit numbers, while PyTorch stays in fp32.
NARROW_LIMITS = {'bf16': {'loss': 1e-2, 'lr': 1e-6, 'grad_norm': 2e-2, 'weights': 0.3},
                 'fp16': {'loss': 1e-3, 'lr': 1e-6, 'grad_norm': 4e-3, 'weights': 0.1}}


class Failed(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failed(message)


# ---- jobs ------------------------------------------------------------------------------------------------------------

def write_table(path, features=20):
    """Writes 900 rows of 8 overlapping classes. An epoch ends within the run, with a smaller batch."""
    numbers = random.Random(8)
    centres = [[numbers.gauss(0, 0.5) for _ in range(features)] for _ in range(8)]
    with open(path, 'w') as file:
        for _ in range(900):
            label = numbers.randrange(8)
            row = [numbers.gauss(centre, 1) for centre in centres[label]]
            file.write(','.join(f'{value:.5f}' for value in row) + f',{label}\n')


def write_text(path):
    """Writes words drawn at random, some of them often. An epoch ends within the run, with a smaller batch."""
    numbers = random.Random(9)
    words = [''.join(numbers.choice('etaoinshrdlu') for _ in range(numbers.randint(2, 7))) for _ in range(120)]
    with open(path, 'w') as file:
        for _ in range(2000):
            file.write(words[int(len(words) * numbers.random() ** 2)] + numbers.choice([' '] * 8 + [', ', '.\n']))


def make_job(kind, slots, folder):
    job = {
        'job': {'name': f'{kind}-{slots}', 'mode': 'sync', 'steps': STEPS, 'seed': 5, 'slots': slots},
        'model': {'kind': kind},
        'data': {},
        'optimizer': {'kind': 'adamw', 'betas': [0.9, 0.95], 'eps': 1e-8, 'weight_decay': 0.1},
        'schedule': {'kind': 'cosine', 'warmup_steps': 10},
        'cluster': {'servers': 2, 'workers': 2, 'min_workers': 2},
        'worker': {'threads': 1, 'accumulate': 1 if slots == 1 else 2},
    }
    if kind == 'mlp':  # the second layer is larger than a block
        job['job']['global_batch'] = 32
        job['model'].update(hidden=[600, 450])
        job['data'].update(kind='csv', path=os.path.join(folder, 'table.csv'))
        job['optimizer'].update(lr=1e-3, no_decay=['layers.2.*'], clip_norm=1.5)
        job['schedule'].update(min_lr=1e-4)
    elif kind == 'convnet':
        job['job']['global_batch'] = 32
        job['model'].update(channels=[10, 12], hidden=[40])
        job['data'].update(kind='csv', path=os.path.join(folder, 'images.csv'), image=IMAGE)
        job['optimizer'].update(lr=5e-3, no_decay=['conv.1.*'], clip_norm=0.6)
        job['schedule'].update(min_lr=5e-4)
    else:
        job['job']['global_batch'] = 8
        job['model'].update(layers=2, heads=4, width=112, context=32)
        job['data'].update(kind='text', path=os.path.join(folder, 'text.txt'))
        job['optimizer'].update(lr=5e-4, no_decay=['wpe.*'], clip_norm=2.0)
        job['schedule'].update(min_lr=5e-5)
    return job


def make_narrow_job(precision, folder):
    job = make_job('gpt', 3, folder)
    job['job']['name'] = f'gpt-{precision}'
    job['worker']['precision'] = precision
    return job


def limits_of(job):
    return NARROW_LIMITS.get(job['worker'].get('precision'), LIMITS)


def make_trust_job(optimizer, folder):
    job = make_job('mlp', 3, folder)
    job['job']['name'] = optimizer
    section = {key: job['optimizer'][key] for key in ('weight_decay', 'no_decay', 'clip_norm')}
    if optimizer == 'lars':
        section.update(kind='lars', lr=0.05, momentum=0.9, trust_coefficient=0.1, clip_norm=1.0)
    else:
        section.update(kind='lamb', lr=1e-2, betas=[0.9, 0.95], eps=1e-6)
    job['optimizer'] = section
    job['schedule'].update(min_lr=section['lr'] / 10)
    return job


def write_job(job, path):
    with open(path, 'w') as file:
        for section, keys in job.items():
            file.write(f'[{section}]\n')
            for key, value in keys.items():  # strings, numbers and lists of them look alike in JSON and TOML
                file.write(f'{key} = {json.dumps(value)}\n')


# ---- runs ------------------------------------------------------------------------------------------------------------

def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LAUNCH_SECONDS)
    check(done.returncode == 0, f'{" ".join(command)} ended with {done.returncode}:\n' +
          done.stdout[-4000:].decode(errors='replace'))


def read_metrics(folder):
    """Returns the last line of metrics.jsonl about each step."""
    steps = {}
    with open(os.path.join(folder, 'metrics.jsonl')) as file:
        for line in map(json.loads, file):
            steps[line['step']] = line
    check(sorted(steps) == list(range(STEPS)), f'{folder}/metrics.jsonl has the steps {sorted(steps)}')
    return [steps[step] for step in range(STEPS)]


def digest(folder):
    with open(os.path.join(folder, 'final.safetensors'), 'rb') as file:
        return hashlib.sha256(file.read()).hexdigest()


def run_ours(programs, job_file, folder):
    """Runs local_train and the launched job, whose results must be equal; returns the launched job's folder.

    Without --capstan there is only local_train's folder.
    """
    local = os.path.join(folder, 'local')
    os.makedirs(local)
    run(programs.local_train, job_file, local)
    if not programs.capstan:
        return local
    launched = os.path.join(folder, 'launched')
    run(programs.capstan, 'launch', job_file, '--run-dir', launched)
    check(digest(launched) == digest(local), f'{job_file}: the launched job ended with other weights than local_train')
    for ours, theirs in zip(read_metrics(launched), read_metrics(local)):
        for key in ('loss', 'lr', 'grad_norm', 'samples'):
            check(math.isclose(ours[key], theirs[key], rel_tol=1e-9),
                  f'{job_file}, step {ours["step"]}: {key} is {ours[key]}, and {theirs[key]} in local_train')
    return launched


# ---- comparisons -----------------------------------------------------------------------------------------------------

def deviation(ours, theirs):
    return abs(ours - theirs) / max(abs(theirs), 1e-30)


def comparable(name, value):
    """Returns `value` without the bias of attention's keys. Softmax does not depend on this bias, so its gradient is only
    rounding errors, from which Adam makes steps of full size."""
    if not name.endswith('attn.c_attn.bias'):
        return value
    third = value.numel() // 3
    return torch.cat([value[:third], value[2 * third:]])


def weights_deviation(ours, theirs, initial):
    """Returns, over all tensors, the norm of the difference divided by the norm of what training changed."""
    check(set(ours) == set(theirs), f'tensors differ: {sorted(set(ours) ^ set(theirs))}')
    difference = change = 0.0
    for name in ours:
        a, b, start = (comparable(name, tensors[name].double()) for tensors in (ours, theirs, initial))
        difference += (a - b).square().sum().item()
        change += (b - start).square().sum().item()
    return math.sqrt(difference / change)


class Run:
    """The inputs and results of a job that capstan ran."""

    def __init__(self, job, folder, run_folder):
        self.job, self.folder = job, folder
        self.metrics = read_metrics(run_folder)
        self.final = read_safetensors(os.path.join(run_folder, 'final.safetensors'))
        self.initial = read_safetensors(os.path.join(folder, 'initial.safetensors'))

    def compare(self, dtype=torch.float32):
        """Returns the largest relative deviation from PyTorch of each figure over all steps, and of the weights."""
        training = Training(self.folder, self.job, dtype=dtype)
        worst = dict.fromkeys(LIMITS, 0.0)
        for ours, theirs in zip(self.metrics, training):
            for key in theirs:
                worst[key] = max(worst[key], deviation(ours[key], theirs[key]))
        worst['weights'] = self.weights_deviation(training)
        return worst

    def weights_deviation(self, training):
        theirs = {name: parameter.detach() for name, parameter in training.parameters.items()}
        return weights_deviation(self.final, theirs, self.initial)

    def notices(self, fault):
        """Returns where the job first deviates from PyTorch with the fault planted; None if it does not."""
        training = Training(self.folder, self.job, [fault])
        for step, (ours, theirs) in enumerate(zip(self.metrics, training)):
            off = deviation(ours['loss'], theirs['loss'])
            if not off < LIMITS['loss']:
                return f'loss of step {step}: {off:.1e}'
        off = self.weights_deviation(training)
        return None if off < LIMITS['weights'] else f'final weights: {off:.1e}'


def check_clipping(metrics, job):
    clipped = sum(line['grad_norm'] > job['optimizer']['clip_norm'] for line in metrics)
    check(5 <= clipped <= STEPS - 5, f'{clipped} of {STEPS} steps are clipped; the test wants both kinds')
    return clipped


def compare_job(programs, job, root):
    """Runs a job and prints its deviations from PyTorch. Returns (Run, whether all are within the limits)."""
    begin = time.monotonic()
    folder = os.path.join(root, job['job']['name'])
    job_file = os.path.join(folder, 'job.toml')
    os.makedirs(folder)
    write_job(job, job_file)
    run(programs.dump_inputs, job_file, folder)
    ours = Run(job, folder, run_ours(programs, job_file, folder))
    losses = [line['loss'] for line in ours.metrics]
    clipped = check_clipping(ours.metrics, job)
    check(len({line['samples'] for line in ours.metrics}) > 1, 'no epoch ended within the run')
    worst = ours.compare(torch.float64 if programs.double else torch.float32)
    limits = limits_of(job)
    passed = all(worst[key] < limits[key] for key in limits)
    print(f'{"ok" if passed else "FAIL":6}{job["job"]["name"]:10}' + ''.join(f'{worst[key]:11.1e}' for key in LIMITS) +
          f'{losses[0]:9.3f} to {losses[-1]:.3f}{clipped:9}{time.monotonic() - begin:9.1f}', flush=True)
    return ours, passed


def check_fault(run, fault):
    where = run.notices(fault)
    kind = run.job['job']['name'].split('-')[0]
    print(f'{"ok" if where else "FAIL":6}{kind:8}{where or "not noticed":25}{FAULTS[fault]}', flush=True)
    return where is not None


def run_all(programs, root):
    write_table(os.path.join(root, 'table.csv'))
    write_table(os.path.join(root, 'images.csv'), math.prod(IMAGE))
    write_text(os.path.join(root, 'text.txt'))
    results, planted = [], []
    print(f'{"capstan launch" if programs.capstan else "local_train"} beside PyTorch {torch.__version__}: largest '
          f'relative deviation in {STEPS} steps')
    print(f'{"":6}{"job":10}' + ''.join(f'{key:>11}' for key in LIMITS) + f'{"loss":>12}{"clipped":>17}{"seconds":>9}')
    print(f'{"":6}{"limit":10}' + ''.join(f'{limit:11.0e}' for limit in LIMITS.values()), flush=True)
    for kind in ('mlp', 'convnet', 'gpt'):
        for slots in (1, 3):
            ours, passed = compare_job(programs, make_job(kind, slots, root), root)
            results.append(passed)
        planted += [(ours, fault) for fault in FAULTS
                    if FAULTS_OF.get(fault, kind) == kind and fault not in FAULTS_OF_TRUST]
    for optimizer in ('lars', 'lamb'):
        ours, passed = compare_job(programs, make_trust_job(optimizer, root), root)
        results.append(passed)
        planted += [(ours, fault) for fault in FAULTS if fault in FAULTS_OF_TRUST | {'no clipping', 'decay'}]
    for precision in NARROW_LIMITS:
        results.append(compare_job(programs, make_narrow_job(precision, root), root)[1])
    print('errors planted in PyTorch\'s side, and what shows them')
    results += [check_fault(*one) for one in planted]
    return 0 if all(results) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--dump-inputs', required=True)
    parser.add_argument('--local-train', required=True)
    parser.add_argument('--capstan')
    parser.add_argument('--keep', help='a new folder for all files, that stays')
    parser.add_argument('--double', action='store_true', help='PyTorch computes in fp64: whose rounding is it?')
    programs = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix='capstan-parity-') as scratch:
        root = programs.keep or scratch
        os.makedirs(root, exist_ok=True)
        return run_all(programs, root)


if __name__ == '__main__':
    try:
        sys.exit(main())
    except (Failed, OSError, subprocess.SubprocessError) as error:
        print(f'FAILED: {error}', file=sys.stderr)
        sys.exit(1)
