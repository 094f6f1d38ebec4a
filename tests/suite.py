"""Builds capstan and runs its tests: what scripts/test calls, with the same arguments.

The default tier is what users and continuous integration run: everything in release but the unit tests of the cores,
which run once, under ASan and UBSan, and what threads touch under TSan. The sanitizers' trees are built in what processor
time the release tests leave over. --quick runs what a change touches, in the preset dev; --all runs everything.
"""
import argparse
import hashlib
import json
import math
import os
import random
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CORES = len(os.sched_getaffinity(0))
# Most tests of whole jobs wait more than they compute.
TESTS_AT_ONCE = str(CORES + 1)
# Seconds that the arithmetic of measure_patience takes on the machine whose limits the tests were written with.
USUAL_SECONDS = 0.1
# A recovery test cannot choose the moment at which the machine stands still. At most so many are given a second try.
SECOND_TRIES_MAX = 2
# What tests of recovery do at random, or again and again, --all does so many times.
ROUNDS_OF_ALL = "3"
# A failure that says this is never tried again: weights that differ.
WRONG_BITS = re.compile("other weights than|[0-9a-f]{64}' != '[0-9a-f]{64}")


def build_folder(preset):
    return os.path.join(ROOT, "build", preset)


def measure_patience():
    """By how much limits of tests are longer than usual: 1, or more on a slow machine."""
    best = math.inf
    for _ in range(5):
        began = time.perf_counter()
        value = b"capstan"
        for _ in range(200_000):
            value = hashlib.sha256(value).digest()
        best = min(best, time.perf_counter() - began)
    slower = best / USUAL_SECONDS * (2 if CORES == 1 else 1)
    return max(1, math.ceil(slower - 0.5))


def seed_of_commit():
    """One seed for all random tests of a commit, so that a red run can be had again."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    return int(commit[:8], 16) if commit else 0


def yield_to_others():
    """Makes the calling process run only where nobody else wants to: in a session of its own, as Linux shares time by session."""
    os.setsid()
    os.nice(19)
    try:
        with open("/proc/self/autogroup", "w", encoding="ascii") as file:
            file.write("19")
    except OSError:
        pass  # a kernel without it shares time by process
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except OSError:
        pass


class Stages:
    """Runs commands one after the other, and remembers their seconds and how they ended."""

    def __init__(self):
        self.began = time.monotonic()
        self.rows = []

    def run(self, name, command, **options):
        print(f"\n=== {name}", flush=True)
        began = time.monotonic()
        code = subprocess.run(command, cwd=ROOT, check=False, **options).returncode
        self.note(name, began, code)
        return code

    def note(self, name, began, code):
        self.rows.append((name, time.monotonic() - began, "ok" if code == 0 else f"FAILED ({code})"))

    def failed(self):
        return [name for name, _, how in self.rows if how != "ok"]

    def print(self):
        print(f"\n{'stage':28} {'seconds':>8}  result")
        for name, seconds, how in self.rows:
            print(f"{name:28} {seconds:8.0f}  {how}")
        print(f"{'total':28} {time.monotonic() - self.began:8.0f}")


class BackgroundBuild:
    """A build beside the tests. Its output is printed when it is waited for."""

    def __init__(self, preset, target):
        self.preset = preset
        os.makedirs(build_folder(preset), exist_ok=True)
        self.log = os.path.join(build_folder(preset), "background-build.log")
        commands = f"cmake --preset {preset} && cmake --build --preset {preset} -j{CORES} --target {target}"
        with open(self.log, "wb") as log:
            self.child = subprocess.Popen(["sh", "-c", commands], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT,
                                          stdin=subprocess.DEVNULL, preexec_fn=yield_to_others)

    def wait(self, stages):
        name = f"{self.preset}: rest of the build"
        print(f"\n=== {name}", flush=True)
        began = time.monotonic()
        code = self.child.wait()
        with open(self.log, encoding="utf-8", errors="replace") as log:
            lines = log.read().splitlines()
        print("\n".join(lines if code else lines[-3:]), flush=True)
        stages.note(name, began, code)
        return code == 0

    def stop(self):
        if self.child.poll() is None:
            os.killpg(self.child.pid, 15)
            self.child.wait()


class Test:
    def __init__(self, preset, case):
        self.preset, self.name = preset, case.get("name")
        self.seconds, self.status = float(case.get("time") or 0), case.get("status")
        self.output = case.findtext("system-out") or ""


class Results:
    """What all ctest runs came to."""

    def __init__(self):
        self.tests = []
        self.unsteady = []

    def run(self, stages, name, preset, *arguments):
        """One ctest run; a recovery test that failed is tried once more, without others. Whether all is well."""
        code, tests = self._ctest(stages, name, preset, *arguments)
        bad = [test for test in tests if test.status == "fail"]
        if bad and self._may_try_again(preset, bad):
            names = "|".join(test.name for test in bad)
            again, second = self._ctest(stages, f"{preset}: second try", preset, "-R", f"^({names})$", "-j1")
            if again == 0:
                self.unsteady += [test.name for test in bad]
                stages.rows = [(row, seconds, "unsteady" if row == name else how) for row, seconds, how in stages.rows]
                tests = [test for test in tests if test not in bad] + second
                code = 0
        self.tests += tests
        return code == 0

    def _may_try_again(self, preset, bad):
        listing = subprocess.run(["ctest", "--preset", preset, "--show-only=json-v1"], cwd=ROOT, capture_output=True, text=True,
                                 check=True).stdout
        labels = {test["name"]: next((p["value"] for p in test.get("properties", []) if p["name"] == "LABELS"), [])
                  for test in json.loads(listing)["tests"]}
        return len(bad) <= SECOND_TRIES_MAX and all(
            "recovery" in labels.get(test.name, []) and not WRONG_BITS.search(test.output) for test in bad)

    @staticmethod
    def _ctest(stages, name, preset, *arguments):
        report = os.path.join(build_folder(preset), "junit.xml")
        if os.path.exists(report):
            os.remove(report)
        # TSan of g++ 12 does not start where the kernel randomises addresses widely.
        plain = ["setarch", "-R"] if preset == "tsan" and subprocess.run(
            ["setarch", "-R", "true"], capture_output=True, check=False).returncode == 0 else []
        code = stages.run(name, [*plain, "ctest", "--preset", preset, "-j", TESTS_AT_ONCE, "--output-on-failure", "--no-tests=error",
                                 "--test-output-size-passed", "65536", "--test-output-size-failed", "1048576",
                                 "--output-junit", report, *arguments])
        if not os.path.exists(report):
            return code or 1, []
        return code, [Test(preset, case) for case in ElementTree.parse(report).getroot().iter("testcase")]

    def count(self, status):
        return sum(test.status == status for test in self.tests)

    def print(self):
        slowest = sorted(self.tests, key=lambda test: -test.seconds)[:20]
        print("\nslowest tests")
        for test in slowest:
            print(f"{test.seconds:8.1f} s  {test.preset:8} {test.name}")
        nothing = sorted({line.strip() for test in self.tests for line in test.output.splitlines()
                          if line.strip().startswith("compared with nothing:")})
        for line in nothing:
            print(line)
        for name in self.unsteady:
            print(f"unsteady: {name} failed beside other tests, and passed without them; its first output is above")


class Suite:
    def __init__(self, ctest_arguments):
        self.stages, self.results = Stages(), Results()
        self.ctest_arguments = ctest_arguments
        self.background = []

    def build(self, preset, target, *settings):
        return (self.stages.run(f"{preset}: configure", ["cmake", "--preset", preset, *settings]) == 0 and
                self.stages.run(f"{preset}: build", ["cmake", "--build", "--preset", preset, f"-j{CORES}", "--target", target]) == 0)

    def test(self, preset, *selection):
        return self.results.run(self.stages, f"{preset}: tests", preset, *selection, *self.ctest_arguments)

    def default(self):
        if not self.build("release", "capstan_default_tests"):
            return
        if self.ctest_arguments:  # a choice of the caller's: no more is built than it needs
            self.test("release", "-LE", "^once$")
            return
        self.background = [BackgroundBuild("asan", "capstan_asan_tests")]
        self.test("release", "-LE", "^once$")
        if not self.background[0].wait(self.stages):
            return
        self.background.append(BackgroundBuild("tsan", "capstan_tsan_tests"))
        self.test("asan", "-L", "^(once|asan)$")
        if self.background[1].wait(self.stages):
            self.test("tsan", "-L", "^tsan$")

    def all(self):
        if self.build("release", "all", "-DCAPSTAN_GPU_PROGRAMS=ON"):
            self.test("release")
        for preset in ("asan", "tsan"):
            if self.build(preset, "all"):
                self.test(preset)
        if self.build("fuzz", "fuzzers"):
            self.stages.run("fuzz: 10 s each", [os.path.join(ROOT, "tests/fuzz/run"), build_folder("fuzz")])

    def one(self, preset):
        if self.build(preset, "all"):
            self.test(preset)

    def quick(self):
        if not self.build("dev", "capstan_default_tests"):
            return
        self.stages.run("dev: unit tests", ["cmake", "--build", "--preset", "dev", f"-j{CORES}", "--target", "capstan_once_tests"])
        stamps = Stamps("dev")
        due = stamps.due()
        if not due:
            print("\nno program has changed since its tests passed")
            return
        self.test("dev", "-R", "^(" + "|".join(map(re.escape, due)) + ")$")
        stamps.note(test.name for test in self.results.tests if test.status == "run")

    def finish(self):
        for build in self.background:
            build.stop()
        self.results.print()
        self.stages.print()
        failed = self.results.count("fail")
        if self.stages.failed():
            failed = max(failed, 1)  # a build, say
        print(f"\n{self.results.count('run')} passed, {failed} failed, "
              f"{self.results.count('notrun') + self.results.count('disabled')} skipped", flush=True)
        return 1 if failed else 0


class Stamps:
    """When each test of a preset last passed; a test is due whose program or script is newer."""

    def __init__(self, preset):
        self.preset = preset
        self.folder = os.path.join(build_folder(preset), "passed")
        os.makedirs(self.folder, exist_ok=True)

    def due(self):
        listing = subprocess.run(["ctest", "--preset", self.preset, "-L", "^(quick|unit)$", "--show-only=json-v1"], cwd=ROOT,
                                 capture_output=True, text=True, check=True).stdout
        return [test["name"] for test in json.loads(listing)["tests"] if self._is_due(test["name"], test.get("command", []))]

    def _is_due(self, name, command):
        try:
            passed = os.stat(os.path.join(self.folder, name)).st_mtime
        except FileNotFoundError:
            return True
        files = [word for word in command if os.path.isfile(word) and word.startswith(ROOT)]
        if any(word.endswith(".py") for word in files):  # a script runs the programs
            programs = os.path.join(build_folder(self.preset), "bin")
            files += [entry.path for entry in os.scandir(programs) if entry.is_file()]
        return any(os.stat(file).st_mtime > passed for file in files)

    def note(self, names):
        for name in names:
            with open(os.path.join(self.folder, name), "w", encoding="ascii"):
                pass


def main():
    parser = argparse.ArgumentParser(prog="scripts/test", add_help=False)
    tier = parser.add_mutually_exclusive_group()
    tier.add_argument("--quick", action="store_true")
    tier.add_argument("--all", action="store_true")
    tier.add_argument("--preset")
    words = sys.argv[1:]
    rest = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:rest])

    os.environ["CAPSTAN_TEST_TIER"] = "quick" if arguments.quick else "all" if arguments.all else "default"
    seed = random.SystemRandom().randrange(1 << 32) if arguments.all else seed_of_commit()
    os.environ.setdefault("CAPSTAN_TEST_SEED", str(seed))
    os.environ.setdefault("CAPSTAN_TEST_PATIENCE", str(measure_patience()))
    if arguments.all:
        os.environ.setdefault("CAPSTAN_CHAOS_RUNS", ROUNDS_OF_ALL)
    print(f"seed {os.environ['CAPSTAN_TEST_SEED']} (CAPSTAN_TEST_SEED repeats it), limits of "
          f"{os.environ['CAPSTAN_TEST_PATIENCE']} times the usual length", flush=True)
    suite = Suite(words[rest + 1:])
    try:
        if arguments.quick:
            suite.quick()
        elif arguments.all:
            suite.all()
        elif arguments.preset:
            suite.one(arguments.preset)
        else:
            suite.default()
    except KeyboardInterrupt:
        suite.stages.note("interrupted", time.monotonic(), 130)
    return suite.finish()


if __name__ == "__main__":
    sys.exit(main())
