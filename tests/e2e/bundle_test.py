"""The bundle starts on a system without capstan's libraries: bundle_test.py --bundle scripts/bundle --build BUILD

Unpacks it into a folder that has only glibc, libstdc++ and libgcc_s, makes that the root folder, and trains a job there.
If this machine does not allow a change of the root folder, or has no nvcc to build with, it exits with 77, and with 1
where CI=true.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

FAILED, SKIP = 1, 77
PATIENCE = int(os.environ.get("CAPSTAN_TEST_PATIENCE", "1"))
SYSTEM = ["ld-linux-x86-64.so.2", "libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0",
          "libresolv.so.2", "libstdc++.so.6", "libgcc_s.so.1"]
FOLDERS = ["/lib64", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu"]
# The functions that the test's stand-in for cuBLASLt has, besides the one that returns its version.
FUNCTIONS = ["Create", "Destroy", "GetStatusString", "Matmul", "MatmulAlgoGetHeuristic", "MatmulDescCreate",
             "MatmulDescDestroy", "MatmulDescSetAttribute", "MatmulPreferenceCreate", "MatmulPreferenceDestroy",
             "MatmulPreferenceSetAttribute", "MatrixLayoutCreate", "MatrixLayoutDestroy"]
# A shell command whose arguments are the root folder and the command to run there.
IN_ROOT = 'mount --rbind /proc "$1/proc" && mount --rbind /dev "$1/dev" && root=$1 && shift && exec chroot "$root" "$@"'


def run(*command, **options):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240 * PATIENCE,
                          **options)


def code_of_skip():
    return FAILED if os.environ.get("CI") == "true" else SKIP


def make_root(root):
    for name in SYSTEM:
        found = next((path for folder in FOLDERS if os.path.exists(path := os.path.join(folder, name))), None)
        assert found, name
        folder = os.path.join(root, "lib64" if name.startswith("ld-") else "lib/x86_64-linux-gnu")
        os.makedirs(folder, exist_ok=True)
        shutil.copy(found, folder)
    for folder in "proc", "dev", "tmp":
        os.makedirs(os.path.join(root, folder))


def in_root(root, *command):
    """Runs a command with `root` as its root folder, almost no environment, and mounts that end with the process."""
    return run("unshare", "--mount", "sh", "-c", IN_ROOT, "sh", root, *command, env={"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})


def check_starts(root, top):
    program = f"/somewhere else/{top}/bin/capstan"
    version = in_root(root, program, "--version")
    assert version.returncode == 0 and version.stdout.startswith("capstan "), version
    for name in "device_bench_cuda", "kernels_cuda_test", "worker_device_cuda_test":  # they start, and look for a device
        looked = in_root(root, f"/somewhere else/{top}/bin/{name}", *(["facts"] if "bench" in name else []))
        assert looked.returncode in (0, SKIP) and "error while loading" not in looked.stdout, looked
    job = f"/somewhere else/{top}/examples/mlp-synthetic.toml"
    done = in_root(root, program, "launch", job, "--run-dir", "/run", "--set", "job.steps=20")
    assert done.returncode == 0, done
    assert os.path.getsize(os.path.join(root, "run", "final.safetensors")) > 0, done


def check_cublaslt(root, top):
    """If cuBLASLt is missing, all places where it was searched are named; next to a PyTorch installed by pip it is found."""
    program = f"/somewhere else/{top}/bin/device_bench_cuda"
    missing = in_root(root, program, "libraries")
    assert missing.returncode == 1, missing
    for word in ("libcublasLt.so.13 was not found", "the system's folders", "/usr/local/cuda/lib64/", "set CUDA_HOME"):
        assert word in missing.stdout, (word, missing)
    folder = os.path.join(root, "usr/local/lib/python3.12/dist-packages/nvidia/cu13/lib")
    os.makedirs(folder)
    source = os.path.join(root, "stub.c")
    with open(source, "w", encoding="utf-8") as file:
        file.write("long cublasLtGetVersion(void) { return 130100; }\n" +
                   "".join(f"int cublasLt{name}(void) {{ return 0; }}\n" for name in FUNCTIONS))
    made = run("gcc", "-shared", "-fPIC", "-o", os.path.join(folder, "libcublasLt.so.13"), source)
    assert made.returncode == 0, made
    found = in_root(root, program, "libraries")
    assert found.returncode == 0 and found.stdout == "cublaslt 130100\n", found


def check_libraries(folder):
    """Every library that the programs load is in the bundle, or is one that every machine has."""
    for program in glob.glob(os.path.join(folder, "bin", "*")) + glob.glob(os.path.join(folder, "lib", "capstan", "*")):
        for path in re.findall(r"=> (/\S.*) \(", run("ldd", program).stdout):
            ours = os.path.realpath(path).startswith(os.path.realpath(folder) + os.sep)
            assert ours or os.path.basename(path) in SYSTEM, (program, path)


def check_gpu_check(folder):
    """Without a device gpu-check says so; with one, it names each figure for which it had no time."""
    device = run(os.path.join(folder, "bin", "device_bench_cuda"), "facts")
    assert device.returncode in (0, SKIP), device
    code, words = (FAILED, "not run") if device.returncode == 0 else (SKIP, "no CUDA device")
    done = run(os.path.join(folder, "scripts", "gpu-check"), "--part", "kernels", "--minutes", "0.05", "--out",
               os.path.join(folder, "out.json"))
    assert done.returncode == code and words in done.stdout, done


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bundle", required=True)
    parser.add_argument("--build", required=True)
    arguments = parser.parse_args()
    if not os.path.exists(os.path.join(arguments.build, "bench", "device_bench_cuda")):
        print("SKIPPED: without nvcc there is nothing for a GPU to bundle")
        return code_of_skip()
    if run("unshare", "--mount", "true").returncode != 0:
        print("SKIPPED: this user may not have mounts of its own")
        return code_of_skip()
    with tempfile.TemporaryDirectory(prefix="capstan-bundle-") as temporary:
        archive, root = os.path.join(temporary, "bundle.tar.xz"), os.path.join(temporary, "root")
        made = run(arguments.bundle, "--no-build", "--build", arguments.build, "--out", archive)
        assert made.returncode == 0 and "MiB" in made.stdout, made
        print(made.stdout)
        make_root(root)
        with tarfile.open(archive) as bundle:
            bundle.extractall(os.path.join(root, "somewhere else"))
        (top,) = os.listdir(os.path.join(root, "somewhere else"))
        folder = os.path.join(root, "somewhere else", top)
        check_libraries(folder)
        check_starts(root, top)
        check_cublaslt(root, top)
        check_gpu_check(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
