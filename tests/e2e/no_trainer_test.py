#!/usr/bin/python3
"""A capstan built with -DCAPSTAN_TRAINER=OFF: it contains nothing of the trainer, and says so where a built-in model is wanted.

Programs of the user's own are trained in the tests next to this one (tests/e2e/no_trainer.cmake).
"""
import json
import os
import re
import subprocess
import sys

import harness

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "tidy"))
import tidy

MISSING = "this build has no built-in trainer (CAPSTAN_TRAINER=OFF)"
INSTEAD = "start your own program"


def compiled(build):
    """Yields the sources of this build as paths from the root, also those that are compiled several at once (units/)."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        sources = [entry["file"] for entry in json.load(file)]
    for source in sources:
        if os.path.dirname(source) == os.path.join(build, "units"):
            with open(source, encoding="utf-8") as file:
                yield from re.findall(r'#include "(.*)"', file.read())
        else:
            yield os.path.relpath(source, ROOT)


class NoTrainerTest(harness.JobTest):
    def run_capstan(self, program, *arguments):
        return subprocess.run([harness.program(program), *arguments], cwd=self.folder, capture_output=True, text=True,
                              timeout=harness.DEADLINE, check=False)

    def assert_refused(self, done, code):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(MISSING, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_no_source_of_the_trainer_is_compiled(self):
        sources = list(compiled(os.path.dirname(harness.BIN)))
        self.assertIn("server/shard/shard.cc", sources)
        self.assertIn("cli/trainer/no_trainer.cc", sources)
        self.assertEqual([path for path in sources if tidy.is_trainer(path)], [])

    def test_a_job_with_a_built_in_model_is_refused_before_it_has_a_run_directory(self):
        done = self.run_capstan("capstan", "launch", self.job_file(), "--run-dir", self.path("run"))
        self.assert_refused(done, 2)
        self.assertIn('the [model] of job "small"', done.stderr)
        self.assertIn(INSTEAD, done.stderr)
        self.assertFalse(os.path.exists(self.path("run")))

    def test_weights_of_a_built_in_model_are_not_imported(self):
        done = self.run_capstan("capstan", "snapshot", "import", self.job_file(), self.write("weights", ""), "--run-dir",
                                self.path("run"))
        self.assert_refused(done, 1)

    def test_capstan_worker_says_what_to_start_instead(self):
        done = self.run_capstan("capstan-worker", "--coordinator", "127.0.0.1:1")
        self.assert_refused(done, 1)
        self.assertIn(INSTEAD, done.stderr)
        self.assertRegex(self.run_capstan("capstan-worker", "--version").stdout, r"^capstan-worker \d")

    def test_a_benchmark_of_the_trainer_is_refused(self):
        for name in ("train", "allreduce"):
            self.assert_refused(self.run_capstan("capstan", "bench", name), 1)


if __name__ == "__main__":
    harness.main()
