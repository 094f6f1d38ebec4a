"""Builds capstan and runs its tests. scripts/test calls this program with the same arguments.

The default tier is for users and continuous integration. In release it runs everything except the unit tests of the cores,
which run only under ASan and UBSan; tests of threads also run under TSan. The builds for sanitizers use the processor time
that running tests leave over. --quick runs the tests that a change affects, in the preset dev; --all runs everything.
"""
import argparse
import os
import random
import sys
import time
import traceback

from machine import CORES, ROOT, build_folder, measure_patience, seed_of_commit
from results import TESTS_AT_ONCE, Results, costs, labels_of, listing, only
from stages import BackgroundBuild, Interrupted, Stages, obey_signals
from stamps import Stamps

# The number of rounds (CAPSTAN_CHAOS_RUNS) of repeated parts of recovery tests with --all; otherwise there is one.
ROUNDS_OF_ALL = "3"
STEPS_OF_ALL = "20000"  # of the long job
QUICK_SECONDS = 105  # about the longest time that --quick takes
QUICK_TESTS_LEAST, QUICK_TESTS_MOST = 15, 35  # seconds of its tests


def within_budget(due, seconds_of, budget):
    """Splits the due tests: those that take `budget` seconds in all, the shortest first, and the rest."""
    chosen, left = [], []
    for name in sorted(due, key=lambda name: seconds_of.get(name, 0)):
        budget -= seconds_of.get(name, 0)
        (chosen if budget >= 0 else left).append(name)
    return chosen, left


def seconds_of_quick_tests(built):
    """Returns for how long the tests of --quick may run after `built` seconds of building."""
    return min(QUICK_TESTS_MOST, max(QUICK_TESTS_LEAST, QUICK_SECONDS - built))


class Suite:
    def __init__(self, ctest_arguments):
        self.stages, self.results = Stages(), Results()
        self.ctest_arguments = ctest_arguments
        self.background = []

    def configure(self, preset, *settings):
        return self.stages.run(f"{preset}: configure", ["cmake", "--preset", preset, *settings]) == 0

    def compile(self, preset, *targets):
        return self.stages.run(f"{preset}: build",
                               ["cmake", "--build", "--preset", preset, f"-j{CORES}", "--target", *targets]) == 0

    def build(self, preset, target, *settings):
        return self.configure(preset, *settings) and self.compile(preset, target)

    def test(self, preset, *selection):
        return self.results.run(self.stages, f"{preset}: tests", preset, *self.ctest_arguments, *selection)

    def default(self):
        if self.ctest_arguments:
            self.selected()
            return
        if not self.build("release", "capstan_default_tests"):
            return
        self.background = [BackgroundBuild("asan", "capstan_asan_tests")]
        self.test("release", "-LE", "^(once|all)$")
        if not self.background[0].wait(self.stages):
            return
        self.background.append(BackgroundBuild("tsan", "capstan_tsan_tests"))
        self.test("asan", "-L", "^(once|asan)$")
        if self.background[1].wait(self.stages):
            self.test("tsan", "-L", "^tsan$")

    def selected(self):
        """Runs the tests that the caller chose, each in the build where it runs by default; builds only what they need."""
        if not self.configure("release"):
            return
        tests = listing("release", *self.ctest_arguments)
        once = [test["name"] for test in tests if "once" in labels_of(test)]
        others = [test["name"] for test in tests if "once" not in labels_of(test)]
        if not tests:
            print("no test has this name or label", flush=True)
            self.stages.note("release: tests", time.monotonic(), 1)
        if others and self.compile("release", "capstan_default_tests"):
            self.test("release", "-R", only(others))
        if once and self.configure("asan") and self.compile("asan", *once):
            self.test("asan", "-R", only(once))

    def all(self):
        if self.configure("release", "-DCAPSTAN_GPU_PROGRAMS=ON") and self.compile("release", "all", "tidy_headers"):
            self.test("release")
        if self.build("no-trainer", "capstan_installed"):
            self.test("no-trainer", "-L", "^e2e$")
        for preset in ("asan", "tsan"):
            self.one(preset)
        if self.build("fuzz", "fuzzers"):
            self.stages.run("fuzz: 10 s each", [os.path.join(ROOT, "tests/fuzz/run"), build_folder("fuzz")])
        self.stages.run("documentation: the site", [os.path.join(ROOT, "scripts/docs")])

    def one(self, preset):
        if self.build(preset, "all"):
            self.test(preset)

    def quick(self):
        if not self.configure("dev") or not self.compile("dev", "capstan_default_tests", "capstan_once_tests"):
            return
        began = time.time()
        stamps = Stamps("dev")
        tests = listing("dev", *self.ctest_arguments, "-L", "^(quick|unit|tidy)$", "-LE", "^(bench|long)$")
        seconds = seconds_of_quick_tests(self.stages.seconds())
        due, left = within_budget(stamps.due(tests), costs("dev"), seconds * int(TESTS_AT_ONCE))
        if left:
            print(f"\nleft to scripts/test, because they take long: {', '.join(left)}", flush=True)
        if not due:
            print("\nno test is chosen, or none is due", flush=True)
            return
        self.test("dev", "-R", only(due))
        stamps.note((test.name for test in self.results.tests if test.status == "run"), began)

    def run(self, arguments):
        """Runs a tier. Returns 0, or 128 plus the number of the signal that interrupted it; `finish` reports failures."""
        try:
            if arguments.quick:
                self.quick()
            elif arguments.all:
                self.all()
            elif arguments.preset:
                self.one(arguments.preset)
            else:
                self.default()
        except Interrupted as signal:
            self.stages.note("interrupted", time.monotonic(), 128 + signal.number)
            return 128 + signal.number
        except Exception as error:  # the table is useful anyway
            traceback.print_exc()
            print(getattr(error, "stderr", None) or "", file=sys.stderr)
            self.stages.note("the suite itself", time.monotonic(), 1)
        finally:
            for build in self.background:
                build.stop()
        return 0

    def finish(self):
        self.results.print()
        self.stages.print()
        failed = self.results.count("fail")
        if self.stages.failed():
            failed = max(failed, 1)  # a build, say
        print(f"\n{self.results.count('run')} passed, {failed} failed, {self.results.count('notrun', 'disabled')} skipped"
              + (f", {len(self.results.unsteady)} unsteady" if self.results.unsteady else ""), flush=True)
        return 1 if failed else 0


def parse(words):
    parser = argparse.ArgumentParser(prog="scripts/test", add_help=False)
    tier = parser.add_mutually_exclusive_group()
    tier.add_argument("--quick", action="store_true")
    tier.add_argument("--all", action="store_true")
    tier.add_argument("--preset")
    rest = words.index("--") if "--" in words else len(words)
    return parser.parse_args(words[:rest]), words[rest + 1:]


def main():
    arguments, ctest_arguments = parse(sys.argv[1:])
    obey_signals()
    os.environ["CAPSTAN_TEST_TIER"] = "quick" if arguments.quick else "all" if arguments.all else "default"
    seed = random.SystemRandom().randrange(1 << 32) if arguments.all else seed_of_commit()
    os.environ.setdefault("CAPSTAN_TEST_SEED", str(seed))
    if "CAPSTAN_TEST_PATIENCE" not in os.environ:
        os.environ["CAPSTAN_TEST_PATIENCE"] = str(measure_patience())
    if arguments.all:
        os.environ.setdefault("CAPSTAN_CHAOS_RUNS", ROUNDS_OF_ALL)
        os.environ.setdefault("CAPSTAN_LONG_STEPS", STEPS_OF_ALL)
    print(f"seed {os.environ['CAPSTAN_TEST_SEED']} (CAPSTAN_TEST_SEED repeats it), limits of "
          f"{os.environ['CAPSTAN_TEST_PATIENCE']} times the usual length", flush=True)
    suite = Suite(ctest_arguments)
    interrupted = suite.run(arguments)
    failed = suite.finish()
    return interrupted or failed


if __name__ == "__main__":
    sys.exit(main())
