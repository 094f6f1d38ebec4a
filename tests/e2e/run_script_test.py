#!/usr/bin/python3
"""capstan run SCRIPT.py: a PyTorch script's job without a job file, and [worker] command, by which it is launched again."""
import contextlib
import hashlib
import os
import shutil
import signal
import sys
import tomllib

import harness
import recovery
import skips

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "run_script.py")
STEPS = 21  # 3 epochs of 7


class RunScriptTest(harness.JobTest):
    DIGESTS = {}  # by the number of slots

    def capstan(self, *arguments):
        """Runs capstan with no PYTHONPATH, so that only the launcher can make Python find the package."""
        return harness.Process("/usr/bin/env", "-u", "PYTHONPATH", "OMP_NUM_THREADS=1", harness.program("capstan"),
                               *arguments, cwd=self.folder)

    def run_script(self, *script, options=(), run="run"):
        return self.capstan("run", "--run-dir", self.path(run), "--python", sys.executable, "--set",
                            f"limits.lease={harness.patient(2)}", f"limits.join={harness.DEADLINE}", *options, SCRIPT, *script)

    def digest(self, run="run"):
        return hashlib.sha256(self.weights(run)[1]).hexdigest()

    def undisturbed(self, slots):
        """The digest after three epochs by one process, which is run once for all tests."""
        if slots not in self.DIGESTS:
            self.trained(options=("--epochs", "3", "--slots", str(slots)), run="undisturbed")
            self.DIGESTS[slots] = self.digest("undisturbed")
            self.assertEqual({"keys", "sockets"} & set(os.listdir(self.path("undisturbed"))), set())
        return self.DIGESTS[slots]

    def job(self, run="run"):
        with open(self.path(run, "job.toml"), "rb") as file:
            return tomllib.load(file)

    def trained(self, *script, options=(), run="run"):
        """Runs the script to its good end. Returns what was printed."""
        with self.run_script(*script, options=options, run=run) as process:
            self.assertEqual(process.wait(), 0, process.output)
        return process.output

    def refused(self, *script, options=(), code=1, run="run"):
        with self.run_script(*script, options=options, run=run) as process:
            self.assertEqual(process.wait(), code, process.output)
        return process.output

    @contextlib.contextmanager
    def held(self):
        """Yields the path of a FIFO that has no writer, and a function that gives it one until the end."""
        path, writers = self.path("hold"), []
        os.mkfifo(path)
        try:
            yield path, lambda: writers.append(os.open(path, os.O_RDWR))
        finally:
            for writer in writers:
                os.close(writer)
            os.unlink(path)


class GoodEndTest(RunScriptTest):
    def test_the_scripts_objects_make_the_job_which_is_printed_and_kept(self):
        output = self.trained("--how", "train", options=("--epochs", "3"))
        self.assertIn('the job of run_script.py: optimizer.kind = "momentum", global batch of 16 samples in 1 slot, 7 steps in '
                      "an epoch of 100 samples", output)
        self.assertIn("its steps: 21 (--epochs 3)", output)
        self.assertRegex(output, r"kept in .*/run/job.toml, by which .*capstan launch .*/run/job.toml runs it again")
        self.assertRegex(output, r"worker-0: loss \d\.\d+ at step 21")
        self.assertNotIn("warning", output)
        job = self.job()
        self.assertEqual({key: job["job"][key] for key in ("name", "steps", "global_batch", "slots")},
                         {"name": "run_script", "steps": STEPS, "global_batch": 16, "slots": 1})
        self.assertEqual((job["model"]["kind"], job["optimizer"]["kind"]), ("client", "momentum"))
        self.assertEqual(job["worker"]["command"], [sys.executable, SCRIPT, "--how", "train"])
        self.assertEqual(len(self.metrics()), STEPS)
        self.assert_nothing_runs()

    def test_the_kept_job_runs_again_with_the_same_bits(self):
        self.trained(options=("--epochs", "3", "--servers", "2", "--workers", "2"))
        with self.capstan("launch", self.path("run", "job.toml"), "--run-dir", self.path("again")) as again:
            self.assertEqual(again.wait(), 0, again.output)
        self.assertIn(f"starting 2 of: {sys.executable} {SCRIPT}", again.output)
        self.assertEqual(self.digest("again"), self.digest())
        self.assertEqual(self.job("again"), self.job())

    def test_four_processes_have_the_bits_of_one(self):
        output = self.trained(options=("--epochs", "3", "--workers", "4", "--servers", "2"), run="four")
        for index in range(4):
            self.assertRegex(output, rf"worker-{index}: loss \d\.\d+ at step 21")
        self.assertEqual(self.digest("four"), self.undisturbed(4))

    def test_a_script_that_is_killed_comes_back_and_moves_no_bit(self):
        with self.held() as (path, let_go):
            with self.run_script("--hold", path, options=("--epochs", "3", "--workers", "2")) as process:
                recovery.poll(lambda: recovery.count_records(self.path("run")) >= 10, "10 steps")
                harness.kill(self.pids()["worker-1"])
                since = len(process.lines)
                process.wait_for_line("worker-1 was killed by signal 9 (Killed); starting it again")
                process.wait_for_line('"worker-1" joined (', since=since)
                let_go()
                self.assertEqual(process.wait(), 0, process.output)
        self.assertEqual(self.digest(), self.undisturbed(2))
        self.assert_nothing_runs()

    def test_with_keys_it_has_the_same_bits_and_leaves_neither_keys_nor_sockets(self):
        self.trained(options=("--set", "security.transport=curve"))
        self.assertEqual(self.digest(), self.undisturbed(1))
        self.assertEqual({"keys", "sockets"} & set(os.listdir(self.path("run"))), set())

    def test_the_arrays_of_its_optimizer_are_the_jobs(self):
        self.trained("--how", "rmsprop", options=("--epochs", "1"))
        optimizer = self.job()["optimizer"]
        self.assertEqual((optimizer["kind"], optimizer["centered"], optimizer["momentum"]), ("rmsprop", True, 0.5))

    def test_what_set_says_comes_before_the_script(self):
        self.trained(options=("--set", "job.global_batch=50", "job.name=mine", "--epochs", "2"))
        self.assertEqual((self.job()["job"]["global_batch"], self.job()["job"]["steps"], self.job()["job"]["name"]), (50, 4, "mine"))


class OpenEndTest(RunScriptTest):
    """Neither --steps nor --epochs: the job ends where the script's loop ends."""

    def test_the_job_ends_where_the_loops_end_with_the_bits_of_as_many_steps(self):
        output = self.trained(options=("--workers", "2"))
        self.assertIn("its steps: until the loop of run_script.py ends; --steps N or --epochs N gives a number", output)
        self.assertIn("done: 21 steps", output)
        self.assertNotIn("warning", output)
        self.assertEqual(self.digest(), self.undisturbed(2))
        self.assertEqual(self.job()["job"]["steps"], STEPS)
        with self.capstan("launch", self.path("run", "job.toml"), "--run-dir", self.path("again")) as again:
            self.assertEqual(again.wait(), 0, again.output)
        self.assertEqual(self.digest("again"), self.digest())
        self.assert_nothing_runs()

    def test_a_run_that_is_stopped_goes_on_to_the_same_end(self):
        with self.held() as (path, let_go):
            with self.run_script("--hold", path) as process:
                recovery.poll(lambda: recovery.count_records(self.path("run")) >= 10, "10 steps")
                harness.kill(process.pid, signal.SIGINT)
                self.assertEqual(process.wait(), 128 + signal.SIGINT, process.output)
            let_go()
            with self.capstan("launch", "--resume", "--run-dir", self.path("run")) as resumed:
                self.assertEqual(resumed.wait(), 0, resumed.output)
        self.assertIn("done: 21 steps", resumed.output)
        self.assertEqual(self.digest(), self.undisturbed(1))

    def test_a_script_without_a_loader_may_say_its_batch_by_set(self):
        output = self.trained("--how", "by-hand", options=("--set", "job.global_batch=16"))
        self.assertIn("done: 12 steps", output)

    def test_a_loop_that_waits_for_the_jobs_end_is_refused_at_its_line(self):
        for how, words in (("slots", r"slots\(\) goes on until the job is done"), ("epochs", r"write epochs\(COUNT\)")):
            with self.subTest(how):
                output = self.refused("--how", how, options=("--set", "job.global_batch=16"), run=how)
                self.assertRegex(output, rf"Invalid: .*{words}.*capstan run --steps N")

    def test_without_snapshots_such_a_job_is_refused(self):
        output = self.refused(options=("--set", "snapshot.every_seconds=0"), code=2)
        self.assertIn("[snapshot] has none: set a number of steps", output)
        self.assertFalse(os.path.exists(self.path("run")))


class BadEndTest(RunScriptTest):
    """Scripts that fail before they have a job."""

    def test_an_error_ends_the_run_at_once_with_the_last_lines(self):
        output = self.refused("--how", "fail", options=("--workers", "2"))
        self.assertRegex(output, r"capstan: worker-\d exited with code 1 before it called prepare\(\) in .*run_script.py; the last "
                                 r"lines of its log:\n(  .*\n)*  ValueError: no such file as digits.csv")
        self.assertNotIn("starting it again", output)
        self.assertEqual({"final.safetensors", "sockets"} & set(os.listdir(self.path("run"))), set())

    def test_a_script_that_never_prepares_is_told_the_lines(self):
        output = self.refused("--how", "leave")
        self.assertIn("worker-0 ended without a call of prepare()", output)
        self.assertIn("  trainer = capstan.torch.connect()", output)

    def test_a_script_that_is_too_late_is_named(self):
        output = self.refused("--how", "wait", options=("--prepare-seconds", "0.2"))
        self.assertRegex(output, r"waited .* for worker-0 \(process \d+\) to call prepare\(\) in .*; --prepare-seconds gives it more")

    def test_an_optimizer_of_another_kind_is_refused_at_its_line(self):
        self.assertRegex(self.refused("--how", "refused"), "run_script.py runs its optimizer itself.*--steps N or --epochs N")
        output = self.refused("--how", "refused", options=("--steps", "3"), run="counted")
        self.assertRegex(output, r"Unsupported: LBFGS.step\(\) wants a closure")

    def test_what_needs_the_job_comes_after_prepare(self):
        self.assertRegex(self.refused("--how", "early"), r"Invalid: .*this comes after prepare\(\)")

    def test_without_a_loader_batch_and_epochs_are_to_be_said(self):
        self.assertIn("add --set job.global_batch=N", self.refused("--how", "by-hand", run="batch"))
        output = self.refused("--how", "by-hand", options=("--set", "job.global_batch=16", "--epochs", "2"), run="epochs")
        self.assertIn("gave prepare() none: write --steps N", output)

    def test_ctrl_c_before_prepare_ends_the_script(self):
        with self.run_script("--how", "wait") as process:
            process.wait_for_line("starting 1 of: ")
            harness.kill(process.pid, signal.SIGINT)
            self.assertEqual(process.wait(), 128 + signal.SIGINT, process.output)
        self.assertIn("stopped before", process.output)

    def test_wrong_calls_are_refused_before_anything_starts(self):
        text = self.write("notes.txt", "")
        for words, wanted in (((), "say which script: capstan run train.py"),
                              (("nothing.py",), "there is no script nothing.py"),
                              ((self.folder,), "is a folder; name the script in it"),
                              ((text,), "is no Python script"),
                              (("--job", SCRIPT), "there is no option --job"),
                              (("--workers", "0", SCRIPT), "--workers"),
                              (("--epochs", "0", SCRIPT), "--epochs 0: a job has at least one epoch"),
                              (("--epochs", "2", "--steps", "2", SCRIPT), "--epochs"),
                              (("--set", "job.stpes=3", SCRIPT), 'did you mean "steps"?'),
                              (("--set", "model.kind=mlp", "data.kind=synthetic", SCRIPT), "capstan run trains the model of a script"),
                              (("--python", "no-such-python", SCRIPT), 'there is no program "no-such-python" in PATH')):
            with self.subTest(words), self.capstan("run", *words) as process:
                self.assertEqual(process.wait(), 2, process.output)
                self.assertIn(wanted, process.output)
                self.assertNotIn("starting", process.output)
        self.assertFalse(os.path.exists(self.path("runs")))


class CommandOfJobFileTest(RunScriptTest):
    """[worker] command"""

    JOB = """\
[job]
name = "own"
steps = 20
global_batch = 4
slots = 2

[model]
kind = "client"

[optimizer]
kind = "sgd"

[cluster]
workers = 2

[worker]
command = ["{python}", "-B", "own_program.py", "train"]
"""

    def test_launch_starts_the_command_of_the_job_file(self):
        shutil.copy(os.path.join(HERE, "own_program.py"), self.folder)
        job = self.write("job.toml", self.JOB.format(python=sys.executable))
        with self.capstan("launch", job, "--run-dir", self.path("run")) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        for index in (0, 1):
            self.assertIn(f"worker-{index}: place {index} of 2", launch.lines)
        self.assertEqual(len(self.metrics()), 20)

    def test_words_of_the_command_line_come_before_it(self):
        shutil.copy(os.path.join(HERE, "own_program.py"), self.folder)
        job = self.write("job.toml", self.JOB.format(python="no-such-python"))
        with self.capstan("launch", job, "--run-dir", self.path("run"), "--", sys.executable, "-B", "own_program.py", "train") as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        self.assertIn(f"starting 2 of: {sys.executable} -B own_program.py train", launch.output)

    def test_a_command_that_there_is_not_is_refused(self):
        job = self.write("job.toml", self.JOB.format(python="no-such-python"))
        with self.capstan("launch", job, "--run-dir", self.path("run")) as launch:
            self.assertEqual(launch.wait(), 2, launch.output)
        self.assertIn('there is no program "no-such-python" in PATH', launch.output)
        self.assertFalse(os.path.exists(self.path("run")))


if __name__ == "__main__":
    skips.main("torch")
