"""capstan bench NAME -o json prints an array of figures and nothing else, and a table ends with what a reader must know:
bench_json_test.py CAPSTAN"""
import json
import statistics
import subprocess
import sys

KEYS = ['name', 'value', 'unit', 'limit', 'limit_name', 'ratio', 'rounds', 'others_share']


def bench(*words):
    return subprocess.run([sys.argv[1], 'bench', *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240,
                          text=True)


def check_figures():
    done = bench('apply', '--quick', '--only', 'sgd', '-o', 'json')
    assert done.returncode == 0, done
    figures = json.loads(done.stdout)
    assert figures and all(list(figure) == KEYS for figure in figures), figures
    for figure in figures:
        assert figure['value'] > 0 and figure['limit'] > 0 and len(figure['rounds']) >= 2, figure
        assert 0 <= figure['others_share'] <= 2, figure
        for key in 'value', 'limit', 'ratio':
            median = statistics.median(one[key] for one in figure['rounds'])
            assert abs(figure[key] - median) < 1e-9 * median, figure
        for one in figure['rounds']:
            assert abs(one['ratio'] - one['value'] / one['limit']) < 1e-9 * one['ratio'], one
    assert '--quick left out: ' in done.stderr and 'others took' in done.stderr, done


def check_table():
    done = bench('scale', '--quick', '--only', 'coordinator/beat/1')
    assert done.returncode == 0, done
    head, *rows, left_out, others = done.stdout.splitlines()
    assert head.split() == ['name', 'median', '[least..most]', 'unit', 'ratio', '[least..most]', 'limit'], done
    assert [row.split()[0].split('/')[-1] for row in rows] == ['100w10s', '1000w100s'], done
    assert left_out.startswith('--quick left out: 4,096 workers'), done
    assert others.startswith('While this was measured, others took '), done


def check_refusals():
    unknown = bench('aply')
    assert unknown.returncode == 2 and 'apply' in unknown.stderr and not unknown.stdout, unknown
    for name in 'apply', 'memory', 'snapshot':
        nothing = bench(name, '--only', 'no such row')
        assert nothing.returncode == 1 and f'\n  {name}/' in nothing.stderr and not nothing.stdout, nothing
    no_python = bench('apply', '--python', '/bin/false')
    assert no_python.returncode == 2 and '--python' in no_python.stderr and not no_python.stdout, no_python
    bare = bench('train', '--only', 'mlp/compute', '--python', '/bin/false')
    assert bare.returncode == 1 and "'/bin/false' -B" in bare.stderr and not bare.stdout, bare


if __name__ == '__main__':
    check_figures()
    check_table()
    check_refusals()
