"""scripts/gpu-check on the emulated device: its JSON is complete, and names failures.

    gpu_check_test.py --gpu-check scripts/gpu-check --build BUILD
"""
import argparse
import importlib.util
import json
import os
import stat
import subprocess
import sys
import tempfile


def gpu_check(arguments, out, *words):
    done = subprocess.run([sys.executable, "-B", arguments.gpu_check, "--build", arguments.build, "--out", out, *words],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=280)
    print(done.stdout, flush=True)
    with open(out, encoding="utf-8") as file:
        return done.returncode, json.load(file)


def figures(report, part):
    found = {figure["name"]: figure for figure in report["parts"][part]["figures"]}
    assert all(figure["command"] for figure in found.values()), found
    return found


def check_good(arguments, folder):
    """Two runs of different parts write to one file, which then has the parts of both."""
    out = os.path.join(folder, "good.json")
    code, report = gpu_check(arguments, out, "--device", "emulated", "--part", "parity", "--part", "compare")
    assert code == 0, code
    parity = figures(report, "parity")
    for name, least in ("parity/kernels", 8), ("parity/models", 5):
        tests = parity[name]["tests"]
        assert len(tests) >= least and all(test["ok"] and test["seconds"] >= 0 for test in tests), len(tests)
    results = parity["parity/kernels"]["results"]
    assert len(results) > 8 and all(0 <= line["error"] <= line["tolerance"] for line in results), results
    assert report["machine"]["device"] == "emulated on the CPU" and report["capstan"].startswith("capstan "), report
    check_compared(figures(report, "compare"))
    code, report = gpu_check(arguments, out, "--device", "emulated", "--part", "train")
    assert code == 0 and "parity" in report["parts"], code
    train = figures(report, "train")
    mlp = [train[f"train/mlp/{name}"] for name in ("1-workers", "2-workers", "3-workers", "killed-worker")]
    assert len({figure["sha256"] for figure in mlp}) == 1 and mlp[3]["killed_at_step"] > 0, mlp
    assert train["train/gpt2/2-workers"]["value"] > 0, train
    code, report = gpu_check(arguments, out, "--device", "emulated", "--part", "script")
    assert code == 0, code
    check_script(figures(report, "script"))


def check_script(found):
    """Checks that a PyTorch script had the same weights in all its runs and PyTorch's losses, or was left out by name."""
    if importlib.util.find_spec("torch") is None:
        assert sorted(found) == ["script/mlp/alone"] and "skipped" in found["script/mlp/alone"], found
        return
    mlp = [found[f"script/mlp/{name}"] for name in ("1-workers", "2-workers", "killed-worker")]
    assert len({figure["sha256"] for figure in mlp}) == 1 and mlp[2]["killed_at_step"] > 0, mlp
    assert found["script/mlp/losses"]["steps"] == 60, found
    assert found["script/gpt2/1-workers"]["value"] > 0 and found["script/gpt2/2-workers"]["value"] > 0, found


def check_compared(found):
    """Checks that there are figures of each model in PyTorch. Without PyTorch, a figure must say that it was left out."""
    if importlib.util.find_spec("torch") is None:
        assert sorted(found) == ["PyTorch, gpt", "PyTorch, resnet18"], found
        assert all("skipped" in figure for figure in found.values()), found
        return
    for model in "torch/gpt-", "torch/resnet18-":
        assert any(name.startswith(model) for name in found), (model, found)
    assert all(figure["value"] > 0 and "failed" not in figure for figure in found.values()), found


def write_program(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, stat.S_IRWXU)


def check_bad(arguments, folder):
    """A test fails, one dies, one has no time, and a part breaks in the middle: the file names each."""
    build, out = os.path.join(folder, "build"), os.path.join(folder, "bad.json")
    programs = {"bin/capstan": None, "bench/device_bench_emulated": None,
                "tests/kernels/cuda/kernels_emulated_test": FAILS, "tests/worker/device/worker_device_test": DIES}
    for path, text in programs.items():
        path = os.path.join(build, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if text is None:
            os.symlink(os.path.join(arguments.build, os.path.relpath(path, build)), path)
            continue
        write_program(path, text)
    bad = argparse.Namespace(gpu_check=arguments.gpu_check, build=build)
    code, report = gpu_check(bad, out, "--device", "emulated", "--part", "parity")
    parity = figures(report, "parity")
    assert code == 1, code
    assert parity["parity/kernels"]["failed"].startswith("1 tests") and parity["parity/kernels"]["value"] == 1, parity
    assert parity["parity/kernels"]["tests"][1]["why"] == ["1 == 2"], parity
    assert parity["parity/kernels, alone: sums, too"]["last_lines"] == ["-r sums\\, too"], parity
    assert parity["parity/models"]["failed"] and parity["parity/models"]["last_lines"] == ["it broke"], parity
    code, report = gpu_check(bad, out, "--device", "emulated", "--part", "kernels", "--minutes", "0.016")
    untimely = figures(report, "kernels")
    assert code == 1 and sorted(untimely) == ["kernels", "steps of gpt"], report
    assert all(figure["failed"].startswith("not run: the time") for figure in untimely.values()), untimely
    for path, text in ("bench/device_bench_emulated", BABBLES), ("bin/capstan", FORGETS):
        os.remove(os.path.join(build, path))
        write_program(os.path.join(build, path), text)
    code, report = gpu_check(bad, out, "--device", "emulated", "--part", "kernels", "--part", "train")
    assert code == 1 and report["capstan"].startswith("capstan "), report
    kernels = figures(report, "kernels")
    assert kernels["kernels"]["failed"].startswith("a line is no figure"), kernels
    assert kernels["good"]["value"] == 2 and kernels["good"]["PATH"] == os.path.dirname(sys.executable), kernels
    assert figures(report, "train")["train"]["failed"].startswith("gpu-check itself: "), report


# A stand-in for a test program. Called with -r first, it writes a report as Catch does, with one failed test; otherwise
# it prints the test that it is to run, and fails.
FAILS = """#!/bin/sh
case $1 in -r) ;; *) echo "-r $1"; exit 3;; esac
cat >"$4" <<END
<Catch><TestCase name="adds"><OverallResult success="true" durationInSeconds="0.1"/></TestCase>
<TestCase name="sums, too"><Expression>1 == 2</Expression><OverallResult success="false" durationInSeconds="0.1"/></TestCase>
</Catch>
END
exit 1
"""
# A stand-in for a benchmark: prints figures, of which one is cut short.
BABBLES = """#!/bin/sh
case $1 in facts) echo '{"device": "emulated on the CPU"}'; exit 0;; esac
echo '[{"name": "cut", "val'
echo ',{"name": "good", "value": 2, "unit": "s", "PATH": "'${PATH%%:*}'"}'
"""
# A stand-in for capstan: its jobs end with exit code 0 and leave no files.
FORGETS = """#!/bin/sh
case $1 in --version) echo "capstan 0";; esac
"""
DIES = """#!/bin/sh
echo "<Catch><TestCase name='begins'>" >"$4"
echo "it broke" >&2
kill -SEGV $$
"""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpu-check", required=True)
    parser.add_argument("--build", required=True)
    arguments = parser.parse_args()
    arguments.build = os.path.abspath(arguments.build)
    with tempfile.TemporaryDirectory(prefix="capstan-gpu-check-") as folder:
        check_bad(arguments, folder)
        check_good(arguments, folder)


if __name__ == "__main__":
    main()
