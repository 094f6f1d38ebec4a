"""The figures of a device are complete, on shapes for the emulated one: device_bench_test.py DEVICE_BENCH [DEVICE_BENCH...]

A program for a device that this machine lacks must print so and exit with 77.
"""
import json
import subprocess
import sys

KEYS = ['name', 'value', 'unit', 'limit', 'limit_name', 'ratio', 'microseconds']
NO_DEVICE = 77


def run(program, *arguments):
    return subprocess.run([program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240, text=True)


def figures(program, *arguments):
    done = run(program, *arguments, '--small')
    assert done.returncode == 0, done
    found = json.loads(done.stdout)
    for line in done.stdout.splitlines()[:-1]:  # each can be read before the last one is there
        json.loads(line.lstrip('[,'))
    for figure in found:
        assert list(figure) == KEYS and figure['value'] > 0 and figure['microseconds'] > 0, figure
        if figure['limit'] is not None:
            assert abs(figure['ratio'] - figure['value'] / figure['limit']) <= 1e-9 * figure['ratio'], figure
    return {figure['name']: figure for figure in found}


def check(program):
    libraries = run(program, 'libraries')
    assert bool(libraries.stdout) == (libraries.returncode == 0) and 'no CUDA device' not in libraries.stderr, libraries
    facts = run(program, 'facts')
    if facts.returncode == NO_DEVICE:
        assert 'no CUDA device' in facts.stderr and not facts.stdout, facts
        return
    assert json.loads(facts.stdout)['products'], facts
    kernels = figures(program, 'kernels', '--batch', '1')
    assert kernels['gpt-b1/layer_norm']['limit'] == kernels['device/copy']['value'], kernels
    assert kernels['gpt-b1/qkv/forward']['limit'] == kernels['device/product']['value'], kernels
    for model, sizes in ('gpt', ['--length', '8', '--vocabulary', '32']), ('resnet18', []), ('convnet', []), ('mlp', []):
        for precision in 'bf16', 'fp32':
            steps = figures(program, 'steps', model, '--batch', '2', '--steps', '2', '--precision', precision, *sizes)
            prefix = f'train/{model}-b2-v32/' if model == 'gpt' else f'train/{model}-b2/'
            compute = steps[prefix + 'compute']
            assert steps[prefix + 'weights_and_gradients']['limit'] == compute['value'], steps
            assert (prefix + 'flops' in steps) == (model == 'gpt'), steps
    # The operations of a token are 6 N + 6 L C T, with L layers of width C and T tokens in a sequence. N is the number of
    # parameters: embeddings, layers and the last norm.
    width, layers, length, vocabulary = 32, 2, 8, 32
    parameters = (vocabulary + length + 2) * width + layers * (12 * width * width + 13 * width)
    found = figures(program, 'steps', 'gpt', '--batch', '2', '--steps', '1', '--length', '8', '--vocabulary', '32')
    operations = found['train/gpt-b2-v32/flops']['value'] * 1e12 / found['train/gpt-b2-v32/compute']['value']
    expected = 6 * parameters + 6 * layers * width * length
    assert abs(operations - expected) < 1e-6 * expected, (operations, expected)
    assert run(program, 'steps', 'no such model').returncode == 1
    assert run(program, 'steps').returncode == 2


if __name__ == '__main__':
    for path in sys.argv[1:]:
        check(path)
