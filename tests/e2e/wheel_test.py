#!/usr/bin/python3
"""The wheel made by scripts/build-wheel: installed without a network, it has the client and the programs."""
import os
import subprocess
import sys
import zipfile

import harness
import own_workers
import skips

BUILD_WHEEL = os.path.join(own_workers.EXAMPLES, "..", "..", "scripts", "build-wheel")


class WheelTest(own_workers.OwnWorkersTest):
    EXAMPLE = "python"

    def run_program(self, *arguments):
        ran = subprocess.run(arguments, capture_output=True, text=True, timeout=harness.DEADLINE, check=False)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return ran.stdout.strip()

    def wheel(self, folder):
        return self.run_program(BUILD_WHEEL, "--build", os.path.dirname(harness.BIN), "--to", self.path(folder))

    def test_a_build_gives_the_same_bytes_each_time(self):
        first, second = self.wheel("first"), self.wheel("second")
        self.assertRegex(os.path.basename(first), r"^capstan-[\d.]+-py3-none-linux_\w+\.whl$")
        with open(first, "rb") as a, open(second, "rb") as b:
            self.assertEqual(a.read(), b.read())
        with zipfile.ZipFile(first) as wheel:
            self.assertLessEqual({"capstan/__init__.py", "capstan/py.typed", "capstan/libcapstan_client.so.0"},
                                 set(wheel.namelist()))

    def test_its_folder_is_made(self):
        wheel = self.run_program(BUILD_WHEEL, "--build", os.path.dirname(harness.BIN), "--to", self.path("not", "there"))
        self.assertEqual(os.path.dirname(wheel), self.path("not", "there"))
        self.assertTrue(os.path.exists(wheel))

    def test_without_a_build_it_says_what_to_do(self):
        ran = subprocess.run([BUILD_WHEEL, "--build", "nowhere", "--to", self.path("to")], cwd=self.folder, check=False,
                             capture_output=True, text=True, timeout=harness.DEADLINE)
        self.assertEqual((ran.returncode, ran.stderr), (2, "build-wheel: there is no build in nowhere: run scripts/demo "
                                                           "first, or give --build DIR\n"))
        self.assertFalse(os.path.exists(self.path("to")))

    def test_a_worker_trains_with_what_the_wheel_installs(self):
        wheel, python = self.wheel("wheel"), self.path("venv", "bin", "python")
        self.run_program(sys.executable, "-m", "venv", "--system-site-packages", self.path("venv"))
        self.run_program(python, "-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check", wheel)
        library = self.run_program(python, "-c", "import capstan.abi; print(capstan.abi._path())")
        self.assertTrue(library.startswith(os.path.realpath(self.path("venv"))), library)
        version = self.run_program(python, "-c", "import capstan; print(capstan.__version__)")
        self.assertTrue(os.path.basename(wheel).startswith(f"capstan-{version}-"), version)
        for program in ("capstan", "capstan-server", "capstan-worker"):
            version = self.run_program(self.path("venv", "bin", program), "--version").split()[1]
            self.assertTrue(os.path.basename(wheel).startswith(f"capstan-{version}-"), f"{program} {version}")
        program = os.path.join(own_workers.EXAMPLES, "python", "softmax.py")
        self.digest_of_one(lambda address, name: harness.Process(python, program, address, name))


if __name__ == "__main__":
    skips.main("numpy")
