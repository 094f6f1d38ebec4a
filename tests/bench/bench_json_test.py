"""capstan bench NAME -o json prints an array of figures and nothing else: bench_json_test.py CAPSTAN"""
import json
import subprocess
import sys

KEYS = ['name', 'value', 'unit', 'limit', 'limit_name', 'ratio']


def main():
    command = [sys.argv[1], 'bench', 'apply', '-o', 'json']
    figures = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=240).stdout)
    assert figures and all(list(figure) == KEYS for figure in figures), figures
    for figure in figures:
        assert figure['value'] > 0 and figure['limit'] > 0, figure
        assert abs(figure['ratio'] - figure['value'] / figure['limit']) < 1e-9 * figure['ratio'], figure
    unknown = subprocess.run([sys.argv[1], 'bench', 'aply'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
    assert unknown.returncode == 2 and b'apply' in unknown.stderr and not unknown.stdout, unknown
    whole = subprocess.run([sys.argv[1], 'bench', 'apply', '--only', 'sgd'], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, timeout=60)
    assert whole.returncode == 2 and b'--only' in whole.stderr and not whole.stdout, whole
    bare = subprocess.run([sys.argv[1], 'bench', 'train', '--only', 'mlp/compute', '--python', '/bin/false'],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240)
    assert bare.returncode == 1 and b"'/bin/false' -B" in bare.stderr and not bare.stdout, bare


if __name__ == '__main__':
    main()
