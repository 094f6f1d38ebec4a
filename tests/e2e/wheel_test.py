#!/usr/bin/python3
"""The wheel made by scripts/build-wheel: installed without a network, it has the client and the programs, and runs where none of
their libraries are."""
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import harness
import own_workers
import real_scripts_test
import skips

BUILD_WHEEL = os.path.join(own_workers.EXAMPLES, "..", "..", "scripts", "build-wheel")


OF_THE_SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libresolv.so.2", "libstdc++.so.6",
                 "libgcc_s.so.1", "ld-linux-x86-64.so.2"}
# Libraries of ours that PyTorch does not use; the test hides the system's.
HIDDEN = "librocksdb", "libcapnp", "libkj", "libprometheus-cpp-core"
# A shell command that hides a folder and files from the command that follows.
WITHOUT = """\
mount -t tmpfs none "$1" && shift
while [ "$1" != -- ]; do mount --bind /dev/null "$1" || exit 1; shift; done
shift && exec "$@"
"""


def run_program(*arguments):
    ran = subprocess.run(arguments, capture_output=True, text=True, timeout=harness.DEADLINE, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.strip()


def new_wheel(folder):
    """Makes the wheel. Returns its path."""
    return run_program(BUILD_WHEEL, "--build", os.path.dirname(harness.BIN), "--to", folder)


class WheelTest(own_workers.OwnWorkersTest):
    EXAMPLE = "python"

    @classmethod
    def setUpClass(cls):
        """Makes the wheel, and an environment with it."""
        super().setUpClass()
        cls.folder_of_all = tempfile.mkdtemp(prefix="capstan-wheel-")
        cls.addClassCleanup(shutil.rmtree, cls.folder_of_all)
        cls.wheel, cls.venv = new_wheel(os.path.join(cls.folder_of_all, "wheel")), os.path.join(cls.folder_of_all, "venv")
        run_program(sys.executable, "-m", "venv", "--system-site-packages", cls.venv)
        run_program(os.path.join(cls.venv, "bin", "python"), "-m", "pip", "install", "--no-index", "--no-deps",
                    "--disable-pip-version-check", cls.wheel)

    def test_a_build_gives_the_same_bytes_each_time(self):
        first, second = self.wheel, new_wheel(self.path("not", "there"))  # a folder that it makes
        self.assertRegex(os.path.basename(first), r"^capstan-[\d.]+-py3-none-manylinux_2_36_\w+\.whl$")
        with open(first, "rb") as a, open(second, "rb") as b:
            self.assertEqual(a.read(), b.read())
        with zipfile.ZipFile(first) as wheel:
            names = set(wheel.namelist())
            self.assertLessEqual({"capstan/__init__.py", "capstan/lightning/strategy.py", "capstan/transformers/trainer.py", "capstan/py.typed", "capstan/libcapstan_client.so.0"}, names)
            licences = {os.path.basename(name) for name in names if "/licenses/" in name}
            self.assertLessEqual({"libzmq3-dev.txt", "libsodium23.txt", "libssl3.txt"}, licences)
            for name in licences:
                info = next(one for one in names if one.endswith(f"/licenses/{name}"))
                self.assertRegex(wheel.read(info).decode(errors="replace"), "(?i)licen[cs]e|copyright", name)

    def test_without_a_build_it_says_what_to_do(self):
        ran = subprocess.run([BUILD_WHEEL, "--build", "nowhere", "--to", self.path("to")], cwd=self.folder, check=False,
                             capture_output=True, text=True, timeout=harness.DEADLINE)
        self.assertEqual((ran.returncode, ran.stderr), (2, "build-wheel: there is no build in nowhere: run scripts/demo "
                                                           "first, or give --build DIR\n"))
        self.assertFalse(os.path.exists(self.path("to")))

    def test_a_worker_trains_with_what_the_wheel_installs(self):
        wheel, venv = self.wheel, self.venv
        python = os.path.join(venv, "bin", "python")
        library = run_program(python, "-c", "import capstan.abi; print(capstan.abi._path())")
        self.assertTrue(library.startswith(os.path.realpath(venv)), library)
        version = run_program(python, "-c", "import capstan; print(capstan.__version__)")
        self.assertTrue(os.path.basename(wheel).startswith(f"capstan-{version}-"), version)
        for program in ("capstan", "capstan-server", "capstan-worker"):
            version = run_program(os.path.join(venv, "bin", program), "--version").split()[1]
            self.assertTrue(os.path.basename(wheel).startswith(f"capstan-{version}-"), f"{program} {version}")
        program = os.path.join(own_workers.EXAMPLES, "python", "softmax.py")
        self.digest_of_one(lambda address, name: harness.Process(python, program, address, name))

    def test_the_libraries_that_it_loads_are_its_own_or_every_systems(self):
        venv = self.venv
        package, = glob.glob(os.path.join(venv, "lib", "python*", "site-packages", "capstan"))
        programs = glob.glob(os.path.join(package, "bin", "*")) + [os.path.join(package, "libcapstan_client.so.0")]
        self.assertEqual(len(programs), 4)
        for program in programs:
            found = re.findall(r"^\s+(\S+) => (\S+) \(", run_program("ldd", program), re.M)
            self.assertGreater(len(found), 4, program)
            for name, path in found:
                ours = os.path.realpath(path).startswith(os.path.realpath(package) + os.sep)
                self.assertTrue(ours or name in OF_THE_SYSTEM, f"{program} loads {path}")

    def test_a_script_has_the_same_bits_where_neither_the_build_nor_its_libraries_are(self):
        skips.need(self, "torch")
        if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
            skips.skip(self, "this user may not have mounts of its own")
        gpt = self.write("gpt.py", real_scripts_test.SCRIPTS_OF["language_gpt"].converted("language_gpt")[0])
        hidden = [path for name in HIDDEN for path in glob.glob(f"/usr/lib/x86_64-linux-gnu/{name}[.-]*") if ".so" in path]
        self.assertGreaterEqual(len(hidden), len(HIDDEN))
        words = ["run", "--workers", "1", "--steps", "12", "--set", "job.global_batch=16", "--set", f"limits.join={harness.DEADLINE}", "--run-dir"]
        bare = ["env", "-i", f"HOME={self.folder}", "PATH=/usr/bin:/bin"]
        run_program("unshare", "--mount", "sh", "-c", WITHOUT, "sh", os.path.dirname(harness.BIN), *hidden, "--", *bare,
                    os.path.join(self.venv, "bin", "capstan"), *words, self.path("bare"), gpt, self.folder)
        run_program(*bare, harness.program("capstan"), *words, self.path("build"), "--python", sys.executable, gpt, self.folder)
        digests = {hashlib.sha256(self.weights(run)[1]).hexdigest() for run in ("bare", "build")}
        self.assertEqual(len(digests), 1)


if __name__ == "__main__":
    skips.main("numpy")
