"""Results of all ctest runs, and the second attempt of a recovery test that ran out of time."""
import json
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree

from machine import CORES, ROOT, build_folder, limit_of_a_test

# Tests of whole jobs compute for a third of their time and wait for the rest.
TESTS_AT_ONCE = str(3 * CORES)
# The machine may pause during any recovery test. At most this many tests get a second attempt in a run of the suite.
SECOND_TRIES_MAX = 2
OUTPUT_MAX = str(1 << 20)  # bytes per test; ctest drops the rest
CUT = "The rest of the test output was removed"
OUT_OF_TIME = "(limit of the test)"  # printed only by tests/e2e/harness.py
# Patterns of the output of Python's unittest, which has one section for each failure and a last line about all of them.
SECTION = re.compile("^={70}\n(FAIL|ERROR): ", re.MULTILINE)
STATUS = re.compile(r"^FAILED \(failures=(\d+)(?:, skipped=\d+)?\)$", re.MULTILINE)
TRACEBACK = re.compile("^Traceback ", re.MULTILINE)
ERROR = re.compile("^AssertionError: (.*)$", re.MULTILINE)
CRASH = re.compile("broken invariant: |Sanitizer: |runtime error: ")


def ran_out_of_time(output):
    """Whether each failure in this output of a Python test is an expired deadline of tests/e2e/harness.py."""
    status = STATUS.findall(output)
    kinds, sections = SECTION.findall(output), SECTION.split(output)[2::2]
    return (len(status) == 1 and len(sections) == int(status[0]) and set(kinds) == {"FAIL"} and not CRASH.search(output) and
            all(map(is_a_deadline, sections)))


def is_a_deadline(section):
    said = ERROR.search(section)
    return len(TRACEBACK.findall(section)) == 1 and said is not None and OUT_OF_TIME in said[1]


def listing(preset, *selection):
    """Returns the tests that ctest would run for this selection."""
    done = subprocess.run(["ctest", "--preset", preset, "--show-only=json-v1", *selection], cwd=ROOT, capture_output=True,
                          text=True, check=True)
    return json.loads(done.stdout)["tests"]


def costs(preset):
    """The seconds that each test took on average, by name. A test that has not passed yet is missing."""
    try:
        with open(os.path.join(build_folder(preset), "Testing", "Temporary", "CTestCostData.txt"), encoding="utf-8") as file:
            rows = [line.split() for line in file.read().split("---")[0].splitlines()]
    except FileNotFoundError:
        return {}
    return {name: float(seconds) for name, _, seconds in rows}


def property_of(test, name, otherwise):
    return next((entry["value"] for entry in test.get("properties", []) if entry["name"] == name), otherwise)


def labels_of(test):
    return property_of(test, "LABELS", [])


def only(names):
    """Returns the argument of ctest -R that selects exactly these tests."""
    return "^(" + "|".join(map(re.escape, names)) + ")$"


class Test:
    def __init__(self, preset, case):
        self.preset, self.name = preset, case.get("name")
        self.seconds, self.status = float(case.get("time") or 0), case.get("status")
        self.output = case.findtext("system-out") or ""


class Results:
    def __init__(self):
        self.tests = []
        self.unsteady = []

    def run(self, stages, name, preset, *arguments):
        """Runs ctest, and failed recovery tests a second time if they may. Returns whether everything passed at last."""
        code, tests = self._ctest(stages, name, preset, *arguments)
        bad = [test for test in tests if test.status == "fail"]
        if bad and self._may_try_again(preset, bad) and self._second_try(stages, preset, bad):
            stages.call_unsteady(name)
            code = 0
        self.tests += tests
        return code == 0

    def _may_try_again(self, preset, bad):
        if len(self.unsteady) + len(bad) > SECOND_TRIES_MAX or not all(ran_out_of_time(test.output) for test in bad):
            return False
        labels = {test["name"]: labels_of(test) for test in listing(preset)}
        return all("recovery" in labels.get(test.name, []) for test in bad)

    def _second_try(self, stages, preset, bad):
        """Runs the failed tests again, one after the other. Returns whether all passed; then the passes replace the failures.

        Fixtures that run with them are not counted again.
        """
        names = [test.name for test in bad]
        code, tests = self._ctest(stages, f"{preset}: second try", preset, "-R", only(names), "-j1")
        passed = {test.name: test for test in tests if test.name in names and test.status == "run"}
        if code != 0 or set(passed) != set(names):
            return False
        for test in bad:
            test.__dict__.update(passed[test.name].__dict__)
        self.unsteady += names
        return True

    @staticmethod
    def _ctest(stages, name, preset, *arguments):
        report = os.path.join(build_folder(preset), "junit.xml")
        if os.path.exists(report):
            os.remove(report)
        # TSan of g++ 12 and clang 14 does not start if the kernel randomises addresses widely.
        plain = ["setarch", "-R"] if preset == "tsan" and subprocess.run(
            ["setarch", "-R", "true"], capture_output=True, check=False).returncode == 0 else []
        code = stages.run(name, [*plain, "ctest", "--preset", preset, "-j", TESTS_AT_ONCE, "--output-on-failure", "--no-tests=error",
                                 "--timeout", str(limit_of_a_test(preset)), "--test-output-size-passed", OUTPUT_MAX,
                                 "--test-output-size-failed", OUTPUT_MAX, "--output-junit", report, *arguments])
        try:
            return code, [Test(preset, case) for case in ElementTree.parse(report).getroot().iter("testcase")]
        except (OSError, ElementTree.ParseError) as error:
            print(f"no report of the tests: {error}", flush=True)
            return code or 1, []

    def count(self, *statuses):
        return sum(test.status in statuses for test in self.tests)

    def print(self):
        slowest = sorted(self.tests, key=lambda test: -test.seconds)[:20]
        print("\nslowest tests")
        for test in slowest:
            print(f"{test.seconds:8.1f} s  {test.preset:8} {test.name}")
        for line in sorted({line.strip() for test in self.tests for line in test.output.splitlines()
                            if line.strip().startswith("compared with nothing:")}):
            print(line)
        for test in self.tests:
            if CUT in test.output:
                print(f"not seen whole: the output of {test.preset} {test.name}")
            if test.status in ("notrun", "disabled"):
                reasons = [line for line in test.output.splitlines() if line.startswith("SKIPPED")]
                print(f"skipped: {test.preset} {test.name} {' '.join(reasons)}".rstrip())
        for name in self.unsteady:
            print(f"unsteady: {name} ran out of time next to other tests, and passed without them; its first output is above")
