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


if __name__ == '__main__':
    main()
