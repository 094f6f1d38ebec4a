"""Tests the suite, with a fake cmake and a fake ctest that each test controls."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import machine
import results
import stages
import stamps
import suite

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = ("suite.py", "machine.py", "results.py", "stages.py", "stamps.py")
LATE = "AssertionError: 3 steps did not happen within 120 s (limit of the test)"
# A fake ctest: it records its arguments, prints the list of tests, or writes the report of its next planned run.
CTEST = """\
#!/usr/bin/python3
import json, os, signal, sys
from xml.sax.saxutils import escape
words, folder = sys.argv[1:], os.environ["FAKE"]
with open(folder + "/ctest.log", "a") as log:
    log.write(json.dumps([words, os.environ.get("CAPSTAN_TEST_SEED")]) + "\\n")
if "--show-only=json-v1" in words:
    print(open(folder + "/listing.json").read())
    sys.exit()
with open(folder + "/runs.json") as file:
    runs = json.load(file)
run = runs.pop(0)
with open(folder + "/runs.json", "w") as file:
    json.dump(runs, file)
if run == "wait":
    os.kill(int(os.environ["TOLD"]), signal.SIGUSR1)
    signal.pause()
if run != "no report":
    with open(words[words.index("--output-junit") + 1], "w") as report:
        report.write("<testsuite>" + "".join(
            f'<testcase name="{name}" time="1" status="{status}"><system-out>{escape(output)}</system-out></testcase>'
            for name, status, output in run) + "</testsuite>")
sys.exit(8 if run == "no report" or any(status == "fail" for _, status, _ in run) else 0)
"""
# A fake cmake. With ASAN_WAITS=yes a build of asan runs until a signal ends it, with ASAN_WAITS=deaf until the third one does. A
# call that contains $FAILS fails.
CMAKE = """\
#!/bin/sh
echo "$*" >> "$FAKE/cmake.log"
case "$* $ASAN_WAITS" in
  *"--build --preset asan"*yes) exec tail -f /dev/null ;;
  *"--build --preset asan"*deaf) trap 'heard=x$heard; [ $heard != xxx ] || exit 1' TERM; while :; do sleep 0.1; done ;;
esac
case "$*" in *"$FAILS"*) exit 1 ;; esac
"""


def failed(*errors, kind="FAIL", status=None):
    """Returns unittest's output for a file in which a test failed with each of these errors."""
    text = "".join(f"{'=' * 70}\n{kind}: test_{index} (x)\n{'-' * 70}\nTraceback (most recent call last):\n  in x\n{error}\n\n"
                   for index, error in enumerate(errors))
    return f"{text}{'-' * 70}\nRan 9 tests in 1 s\n\n{status or f'FAILED (failures={len(errors)})'}\n"


def heed(ends, counted):
    """Runs in a child before its program. `ends` ends the child even if this test was started with that signal ignored;
    `counted`, which this test blocks, is not blocked in the child."""
    signal.signal(ends, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [counted])


class OutOfTimeTest(unittest.TestCase):
    def test_a_deadline_of_the_harness_is_out_of_time(self):
        self.assertTrue(results.ran_out_of_time(failed(LATE)))
        self.assertTrue(results.ran_out_of_time(failed(LATE, f"{LATE}; it said:\nmany lines")))

    def test_whatever_else_fails_is_not(self):
        for output in (failed("AssertionError: Lists differ: [0] != [0, 1]"), failed(LATE, "AssertionError: 2 != 3"),
                       failed(LATE, kind="ERROR", status="FAILED (errors=1)"), failed(LATE, status="FAILED (failures=1, errors=1)"),
                       failed(f"{LATE}\n\nDuring handling ...\n\nTraceback (most recent call last):\nAssertionError: 2 != 3"),
                       failed(f"AssertionError: it ended early:\n{LATE}"), failed(LATE, status="FAILED (failures=2)"),
                       "WARNING: ThreadSanitizer: data race\n" + failed(LATE), "x.cc:3: broken invariant: a\n" + failed(LATE),
                       f"{LATE}\n", ""):
            self.assertFalse(results.ran_out_of_time(output), output)


class QuickTest(unittest.TestCase):
    def test_tests_have_the_time_that_the_build_leaves_within_bounds(self):
        self.assertEqual([suite.seconds_of_quick_tests(built) for built in (0, 70, 85, 90, 600)], [35, 35, 20, 15, 15])


class PatienceTest(unittest.TestCase):
    def test_it_follows_the_processor_and_the_load_up_to_a_bound(self):
        with mock.patch.object(machine, "CORES", 2):
            self.assertEqual([machine.patience_of(seconds, load) for seconds, load in
                              ((0.1, 0), (0.1, 0.9), (0.1, 2), (0.2, 0), (0.2, 4), (0.4, 40))], [1, 1, 2, 2, 4, 5])
        with mock.patch.object(machine, "CORES", 1):
            self.assertEqual(machine.patience_of(0.1, 0), 2)


class StartTest(unittest.TestCase):
    """A signal arrives after a process has been started, and before the suite knows it."""

    def setUp(self):
        for number in stages.SIGNALS:
            self.addCleanup(signal.signal, number, signal.getsignal(number))
        stages.obey_signals()
        self.started = []

    def start(self, popen=subprocess.Popen, **options):
        child = popen(("tail", "-f", "/dev/null"), **options)
        self.started.append(child)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        os.kill(os.getpid(), signal.SIGTERM)
        return child

    def check(self, starts):
        with mock.patch.object(stages.subprocess, "Popen", lambda _, **options: self.start(**options)), \
                self.assertRaises(stages.Interrupted):
            starts()
        self.assertIsNotNone(self.started[0].poll(), "it is left running")

    def test_a_command_is_ended(self):
        self.check(lambda: stages.run(["any"]))

    def test_a_build_in_the_background_is_ended(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(stages, "build_folder", lambda _: folder):
            self.check(lambda: stages.BackgroundBuild("asan", "any"))


class SuiteTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="capstan-suite-")
        self.addCleanup(shutil.rmtree, self.root)
        os.makedirs(self.path("tests/suite"))
        for script in SCRIPTS:
            shutil.copy(os.path.join(HERE, script), self.path("tests/suite", script))
        shutil.copy(os.path.join(HERE, "../../CMakePresets.json"), self.root)
        for name, text in (("bin/ctest", CTEST), ("bin/cmake", CMAKE)):
            self.write(name, text)
            os.chmod(self.path(name), 0o755)
        for preset in ("release", "asan", "tsan", "dev"):
            os.makedirs(self.path("build", preset))
        self.list_tests()
        self.environment = {**os.environ, "PATH": f"{self.path('bin')}:/usr/bin:/bin", "FAKE": self.root, "FAILS": "nothing",
                            "CAPSTAN_TEST_PATIENCE": "2", "TOLD": str(os.getpid())}

    def path(self, *names):
        return os.path.join(self.root, *names)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def list_tests(self, **labels):
        labels = labels or {"kill_test": ["recovery"], "damage_test": ["recovery"], "pause_test": ["recovery"], "other_test": ["e2e"],
                            "core_test": ["unit", "once"]}
        self.write("listing.json", json.dumps({"tests": [
            {"name": name, "properties": [{"name": "LABELS", "value": value}]} for name, value in labels.items()]}))

    def command(self, *words):
        return [sys.executable, "-B", self.path("tests/suite/suite.py"), *words]

    def run_suite(self, *words, runs):
        """Runs the suite. Returns its exit code and output. `runs` are the results of ctest, one call after the other; the suite
        must make all of these calls."""
        self.write("runs.json", json.dumps(runs))
        done = subprocess.run(self.command(*words), env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=60, check=False)
        with open(self.path("runs.json"), encoding="utf-8") as file:
            self.assertEqual(json.load(file), [], done.stdout)
        return done.returncode, done.stdout

    def ctest_runs(self):
        with open(self.path("ctest.log"), encoding="utf-8") as file:
            return [words for words, _ in map(json.loads, file) if "--show-only=json-v1" not in words]

    def cmake_runs(self):
        with open(self.path("cmake.log"), encoding="utf-8") as file:
            return file.read().splitlines()

    def test_what_passed_failed_and_was_skipped_is_counted_over_all_stages(self):
        code, said = self.run_suite(runs=[[["a", "run", "compared with nothing: NCCL"], ["b", "notrun", "SKIPPED: no torch"]],
                                          [["c", "run", ""]], [["d", "run", ""]]])
        self.assertEqual((code, said.splitlines()[-1]), (0, "3 passed, 0 failed, 1 skipped"))
        self.assertIn("\ncompared with nothing: NCCL\n", said)
        self.assertIn("\nskipped: release b SKIPPED: no torch\n", said)
        self.assertEqual([words[words.index("--timeout") + 1] for words in self.ctest_runs()], ["1800", "1800", "1800"])

    def test_a_recovery_test_that_ran_out_of_time_and_then_passes_is_unsteady(self):
        code, said = self.run_suite("--preset", "release", runs=[
            [["kill_test", "fail", failed(LATE)], ["fixture", "run", ""]], [["fixture", "run", ""], ["kill_test", "run", ""]]])
        self.assertEqual((code, said.splitlines()[-1]), (0, "2 passed, 0 failed, 0 skipped, 1 unsteady"))
        self.assertRegex(said, "(?m)^release: tests +[0-9]+  unsteady$")
        self.assertIn("\nunsteady: kill_test ", said)
        self.assertEqual(self.ctest_runs()[1][-3:], ["-R", "^(kill_test)$", "-j1"])

    def test_a_second_failure_is_a_failure(self):
        late = ["kill_test", "fail", failed(LATE)]
        code, said = self.run_suite("--preset", "release", runs=[[late], [late]])
        self.assertEqual((code, said.splitlines()[-1]), (1, "0 passed, 1 failed, 0 skipped"))

    def test_a_fixture_that_fails_the_second_time_is_a_failure(self):
        code, said = self.run_suite("--preset", "release", runs=[[["kill_test", "fail", failed(LATE)], ["fixture", "run", ""]],
                                                                 [["fixture", "fail", ""], ["kill_test", "run", ""]]])
        self.assertEqual((code, said.splitlines()[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_nothing_else_is_tried_again(self):
        for bad in ([["kill_test", failed("AssertionError: Lists differ")]], [["other_test", failed(LATE)]],
                    [["kill_test", failed(LATE)], ["other_test", failed(LATE)]],
                    [[name, failed(LATE)] for name in ("kill_test", "damage_test", "pause_test")]):
            code, said = self.run_suite("--preset", "release", runs=[[[name, "fail", output] for name, output in bad]])
            self.assertEqual((code, said.splitlines()[-1]), (1, f"0 passed, {len(bad)} failed, 0 skipped"))
            self.assertNotIn("second try", said)

    def test_no_more_than_two_are_tried_again_in_all_stages_together(self):
        bad = [[name, "fail", failed(LATE)] for name in ("kill_test", "damage_test")]
        good = [[name, "run", ""] for name, _, _ in bad]
        code, said = self.run_suite(runs=[bad, good, [["pause_test", "fail", failed(LATE)]], [["core_test", "run", ""]]])
        self.assertEqual((code, said.splitlines()[-1]), (1, "3 passed, 1 failed, 0 skipped, 2 unsteady"))

    def test_a_build_or_a_run_without_a_report_is_a_failure(self):
        code, said = self.run_suite("--preset", "release", runs=["no report"])
        self.assertEqual((code, said.splitlines()[-1]), (1, "0 passed, 1 failed, 0 skipped"))
        self.environment["FAILS"] = "--build --preset asan"
        code, said = self.run_suite(runs=[[["a", "run", ""]]])
        self.assertEqual((code, said.splitlines()[-1]), (1, "1 passed, 1 failed, 0 skipped"))
        self.write("listing.json", "no list")
        code, said = self.run_suite("--", "-R", "core", runs=[])
        self.assertRegex(said, "(?m)^the suite itself +[0-9]+  FAILED")
        self.assertEqual(code, 1)

    def test_a_choice_is_run_where_each_test_runs_by_default(self):
        code, _ = self.run_suite("--", "-R", "_test", runs=[[["other_test", "run", ""]], [["core_test", "run", ""]]])
        self.assertEqual(code, 0)
        self.assertEqual([(words[1], words[-1]) for words in self.ctest_runs()],
                         [("release", "^(kill_test|damage_test|pause_test|other_test)$"), ("asan", "^(core_test)$")])
        self.assertEqual([line.split(" --target ")[1] for line in self.cmake_runs() if "--target" in line],
                         ["capstan_default_tests", "core_test"])
        self.write("listing.json", '{"tests": []}')
        self.assertEqual(self.run_suite("--", "-R", "nobody", runs=[])[0], 1)

    def test_without_git_all_seeds_follow_from_zero(self):
        os.symlink("/bin/sh", self.path("bin/sh"))
        self.environment["PATH"] = self.path("bin")
        self.environment.pop("CAPSTAN_TEST_SEED", None)
        code, said = self.run_suite("--preset", "release", runs=[[["a", "run", ""]]])
        self.assertEqual(code, 0, said)
        self.assertIn("seed 0 ", said)

    def test_a_signal_ends_tests_and_the_build_in_the_background(self):
        self.end_by_signals("yes", *stages.SIGNALS)

    def test_a_build_that_misses_the_signal_is_ended(self):
        self.end_by_signals("deaf", signal.SIGTERM)

    def end_by_signals(self, waits, *numbers):
        self.environment["ASAN_WAITS"] = waits
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
        self.addCleanup(signal.pthread_sigmask, signal.SIG_UNBLOCK, [signal.SIGUSR1])
        for number in numbers:
            self.write("runs.json", '["wait"]')
            with subprocess.Popen(self.command(), env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, preexec_fn=lambda: heed(number, signal.SIGUSR1)) as suite:
                self.assertIsNotNone(signal.sigtimedwait([signal.SIGUSR1], 60), "the tests have not begun")
                suite.send_signal(number)
                said = suite.communicate(timeout=60)[0]
            self.assertEqual(suite.returncode, 128 + number, said)
            self.assertIn("interrupted", said)
            self.wait_until_nothing_is_left()

    def wait_until_nothing_is_left(self):
        """Waits, because the kernel may take a moment to end killed processes."""
        deadline = time.monotonic() + 60
        while left := self.left_running():
            self.assertLess(time.monotonic(), deadline, f"left running: {left}")
            threading.Event().wait(0.02)

    def left_running(self):
        """Returns the processes whose environment names this test's folder."""
        left = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if f"FAKE={self.root}".encode() in file.read():
                        with open(f"/proc/{pid}/cmdline", "rb") as command, open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
                            left.append(f"{stat.read().split()[:6]}: {command.read()[:60]}")
            except OSError:
                pass  # of another user, or it has ended
        return left

    def test_quick_runs_once_what_passed_and_tidy_always(self):
        self.list_tests(core_test=["unit"], tidy=["tidy"])
        self.assertEqual(self.run_suite("--quick", runs=[[["core_test", "run", ""], ["tidy", "run", ""]]])[0], 0)
        self.assertEqual(self.run_suite("--quick", runs=[[["tidy", "run", ""]]])[0], 0)
        self.assertEqual([words[-1] for words in self.ctest_runs()], ["^(core_test|tidy)$", "^(tidy)$"])

    def test_quick_leaves_the_longest_tests_to_the_default_tier(self):
        self.list_tests(storm_test=["unit"], core_test=["unit"], wire_test=["unit"])
        self.write("build/dev/Testing/Temporary/CTestCostData.txt", "storm_test 3 99999\ncore_test 2 0.5\n---\nwire_test\n")
        code, said = self.run_suite("--quick", runs=[[["core_test", "run", ""], ["wire_test", "run", ""]]])
        self.assertEqual(code, 0)
        self.assertIn("left to scripts/test, because they take long: storm_test", said)
        self.assertEqual(self.ctest_runs()[0][-1], "^(wire_test|core_test)$")
        self.assertEqual(self.run_suite("--quick", runs=[])[0], 0)

    def test_quick_runs_again_what_failed(self):
        self.list_tests(core_test=["unit"], wire_test=["unit"])
        runs = [["core_test", "fail", ""], ["wire_test", "run", ""]], [["core_test", "fail", ""]], [["core_test", "run", ""]]
        self.assertEqual([self.run_suite("--quick", runs=[run])[0] for run in runs], [1, 1, 0])
        self.assertEqual(self.run_suite("--quick", runs=[])[0], 0)
        self.assertEqual([words[-1] for words in self.ctest_runs()], ["^(core_test|wire_test)$", "^(core_test)$", "^(core_test)$"])


class StampsTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="capstan-stamps-")
        self.addCleanup(shutil.rmtree, self.root)
        build = self.path("build/dev")
        self.tests = [
            {"name": "core_test", "command": [f"{build}/core_test", self.path("tests/corpus")],
             "properties": [{"name": "WORKING_DIRECTORY", "value": f"{build}/tests/core"}]},
            {"name": "plug_test", "command": [f"{build}/plug_test"]},
            {"name": "child_test", "command": [f"{build}/child_test"]},
            {"name": "library_test", "command": [f"{build}/library_test"]},
            {"name": "job_test", "command": ["/usr/bin/python3", self.path("tests/e2e/job_test.py"), "--bin", f"{build}/bin"],
             "properties": [{"name": "WORKING_DIRECTORY", "value": f"{build}/tests/e2e"}]},
            {"name": "tidy_format", "command": [self.path("format"), "--check"]}]
        self.files = {
            "build/dev/core_test": f"\0{build}\0{self.root}\0",  # debug information names these folders
            "build/dev/plug_test": f"\0{build}/lib/capstan\0{self.path('examples/job.toml')}\0",
            "build/dev/child_test": f"\0{build}/child\0{build}/plug.so\0{self.path('tests/core/core_test.cc')}\0",
            "build/dev/library_test": f"\0libclient.so.0\0{build}/lib:/usr/lib\0",  # the run path of a linked program
            **dict.fromkeys(("build/dev/child", "build/dev/bin/capstan", "build/dev/lib/capstan/libplug.so", "build/dev/lib/libclient.so.0",
                             "build/dev/lib/libclient.a", "tests/corpus/more/input", "tests/core/seeds.txt", "tests/core/core_test.cc",
                             "tests/e2e/job_test.py", "tests/e2e/harness.py", "examples/job.toml", "format"), "")}
        for name, text in self.files.items():
            self.write(name, text, 1000)
        self.run_all(2000)

    def path(self, name):
        return os.path.join(self.root, name)

    def write(self, name, text, moment):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.path(name), 0o755 if "build" in name and not name.endswith(".a") else 0o644)
        os.utime(self.path(name), (moment, moment))

    def run_all(self, moment):
        """Runs the tests that are due; all pass."""
        some = self.stamps()
        some.note(some.due(self.tests), moment)

    def stamps(self):
        return stamps.Stamps("dev", self.root)

    def due(self):
        return [name for name in self.stamps().due(self.tests) if name != "tidy_format"]

    def test_a_test_is_due_where_the_contents_that_it_reads_differ(self):
        for file, due in (("build/dev/core_test", ["core_test"]), ("tests/corpus/more/input", ["core_test"]),
                          ("tests/core/seeds.txt", ["core_test"]), ("tests/core/core_test.cc", []),
                          ("build/dev/bin/capstan", ["job_test"]), ("tests/e2e/harness.py", ["job_test"]), ("README.md", []),
                          ("examples/job.toml", ["plug_test"]), ("build/dev/child", ["child_test"])):
            with self.subTest(file):
                self.write(file, "other", 3000)
                self.assertEqual(self.due(), due)
                self.write(file, self.files.get(file, ""), 1000)

    def test_a_test_is_due_where_it_is_called_in_another_way(self):
        core = next(test for test in self.tests if test["name"] == "core_test")
        core["command"] = [*core["command"], "--more"]
        self.assertEqual(self.due(), ["core_test"])
        core["command"] = core["command"][:-1]
        core["properties"] = [*core.get("properties", []), {"name": "ENVIRONMENT", "value": ["WORD=1"]}]
        self.assertEqual(self.due(), ["core_test"])

    def test_a_plug_in_makes_due_what_names_it_or_its_folder_and_scripts(self):
        for file, due in (("build/dev/lib/capstan/libplug.so", ["plug_test", "library_test", "job_test"]),
                          ("build/dev/lib/libclient.so.0", ["library_test", "job_test"]), ("build/dev/lib/libclient.a", [])):
            with self.subTest(file):
                self.write(file, "other", 3000)
                self.assertEqual(self.due(), due)
                self.write(file, "", 1000)

    def test_a_newer_file_with_the_same_contents_makes_nothing_due(self):
        for name, text in self.files.items():
            self.write(name, text, 3000)
        self.assertEqual(self.due(), [])
        self.write("build/dev/core_test", "other", 3000)
        self.assertEqual(self.due(), ["core_test"])

    def test_a_file_that_is_new_or_gone_makes_due_what_reads_its_folder(self):
        self.write("tests/corpus/new", "", 1000)
        self.write("build/dev/plug.so", "", 1000)
        os.remove(self.path("build/dev/lib/capstan/libplug.so"))
        self.assertEqual(self.due(), ["core_test", "plug_test", "child_test", "library_test", "job_test"])

    def test_a_test_that_did_not_pass_stays_due_until_it_does(self):
        self.write("build/dev/core_test", "other", 3000)
        some = self.stamps()
        some.due(self.tests)
        some.note([], 4000)
        self.assertEqual(self.due(), ["core_test"])
        self.run_all(4000)
        self.assertEqual(self.due(), [])

    def test_an_edit_during_the_run_makes_a_test_due(self):
        self.write("build/dev/core_test", "other", 3000)
        some = self.stamps()
        due = some.due(self.tests)
        self.write("tests/core/seeds.txt", "edited", 5000)
        some.note(due, 4000)
        self.assertEqual(self.due(), ["core_test"])

    def test_a_test_that_never_passed_is_due_and_so_is_one_with_an_empty_stamp(self):
        os.remove(os.path.join(self.stamps().folder, "core_test"))
        self.write("build/dev/passed/job_test", "", 5000)
        self.assertEqual(self.due(), ["core_test", "job_test"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
