#!/usr/bin/python3
"""capstan launch job.toml -- PROGRAM: the user's own program as the workers of a job, in one terminal."""
import os
import shlex
import shutil
import signal
import sys
from unittest import mock

import harness
import recovery

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "own_program.py")
JOB = f"""\
[job]
name = "own"
steps = {{steps}}
global_batch = 4
slots = 2

[model]
kind = "client"

[optimizer]
kind = "sgd"
lr = 0.001

[cluster]
servers = 1
workers = 2

[snapshot]
every_steps = 10

[limits]
lease = {harness.patient(2)}
join = {harness.DEADLINE}
"""


class OwnProgramTest(harness.JobTest):
    def own(self, *how, steps=30, options=(), run="run"):
        """Launches a job with own_program.py. Removes PYTHONPATH, so that only the launcher can make Python find the package."""
        job = self.write("job.toml", JOB.format(steps=steps))
        return harness.Process("/usr/bin/env", "-u", "PYTHONPATH", harness.program("capstan"), "launch", job, "--run-dir",
                               self.path(run), *options, "--", sys.executable, "-B", PROGRAM, *how, cwd=self.folder)

    def wait_for_steps(self, count, run="run"):
        recovery.poll(lambda: recovery.count_records(self.path(run)) >= count, f"{count} steps")

    def log(self, name):
        with open(self.path("run", "logs", f"{name}.log"), encoding="utf-8") as file:
            return file.read()

    # ---- a job that goes well

    def test_programs_are_started_numbered_and_shown_in_one_terminal(self):
        with self.own("train") as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        for index in (0, 1):
            self.assertIn(f"worker-{index}: place {index} of 2", launch.lines)
            self.assertIn(f"worker-{index}: evaluated", launch.lines)
            self.assertIn(f"place {index} of 2\n", self.log(f"worker-{index}"))
        self.assertNotIn("warning", launch.output)
        self.assertEqual(len(self.metrics()), 30)
        self.assertEqual(self.weights()[0], ["weight"])
        self.assert_nothing_runs()

    def test_warnings_of_the_library_are_shown_where_nothing_else_is(self):
        with self.own("warn", options=("--quiet",)) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        self.assertEqual(sorted(launch.lines), [f"warning: worker-{index}: capstan: half of the samples are passed over"
                                                for index in (0, 1)])

    def test_control_bytes_of_a_program_do_not_reach_the_terminal(self):
        with self.own("train") as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        self.assertIn("worker-0: \\x1B[31mred", launch.lines)
        self.assertNotIn("\x1b", launch.output)

    def test_a_program_that_does_not_end_after_the_job_is_told_to(self):
        with self.own("stay", options=("--end-seconds", "0.5")) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        self.assertIn("worker-0: evaluated", launch.lines)
        self.assertRegex(launch.output, "the job is done; waiting up to .* for .*worker-0.* to end")
        self.assertRegex(launch.output, r"warning: worker-0 \(process \d+\), worker-1 \(process \d+\) did not end by itself")
        self.assert_nothing_runs()

    def test_a_program_that_does_not_end_after_the_job_is_named_again_and_again(self):
        with self.own("stay", options=("--set", "limits.report=0.5", "--end-seconds", "300")) as launch:
            line = "more for worker-0 (process "
            since = launch.lines.index(launch.wait_for_line(line)) + 1
            launch.wait_for_line(line, since=since)
            harness.kill(launch.pid, signal.SIGINT)
            self.assertEqual(launch.wait(), 0, launch.output)
        self.assert_nothing_runs()

    def test_a_server_that_does_not_end_after_the_job_has_not_the_time_of_programs(self):
        bin_folder = self.path("bin")
        os.mkdir(bin_folder)
        os.symlink(os.path.join(os.path.dirname(harness.BIN), "lib"), self.path("lib"))
        shutil.copy(harness.program("capstan"), bin_folder)
        server = self.write("bin/capstan-server", f"""\
#!/bin/sh
{shlex.quote(harness.program("capstan-server"))} "$@" || exit
case " $* " in *" --index "*) trap '' TERM; exec sleep infinity; esac
""")
        os.chmod(server, 0o755)
        with mock.patch.object(harness, "BIN", bin_folder), self.own("train") as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        self.assertRegex(launch.output, r"the job is done; waiting .* more for server-0 \(process \d+\) to end")
        self.assertRegex(launch.output, r"warning: server-0 \(process \d+\) did not end by itself; telling it to")
        self.assertRegex(launch.output, r"warning: server-0 \(process \d+\) did not end when told to; killing it")
        self.assert_nothing_runs()

    # ---- programs that end before their time

    def test_a_killed_program_comes_back(self):
        with self.own("train", steps=harness.ENDLESS) as launch:
            self.wait_for_steps(5)
            since = len(launch.lines)
            harness.kill(self.pids()["worker-1"])
            launch.wait_for_line("worker-1 was killed by signal 9 (Killed); starting it again (1 of at most 30 times within an hour)")
            launch.wait_for_line('"worker-1" joined (', since=since)
            self.wait_for_steps(recovery.count_records(self.path("run")) + 5)
            recovery.stop(launch)
        self.assert_nothing_runs()

    def test_a_program_that_fails_comes_back(self):
        with self.own("fail-once", self.path("failed")) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        self.assertRegex(launch.output, r"worker-\d: a disk was lost\n")
        self.assertRegex(launch.output, r"warning: worker-\d exited with code 1; starting it again")
        self.assertEqual(self.metrics()[-1]["step"], 29)

    def test_a_program_that_is_refused_ends_the_job_with_the_refusal(self):
        with self.own("refused") as launch:
            self.assertEqual(launch.wait(), 1, launch.output)
        self.assertRegex(launch.output, r"capstan: worker-\d was refused, and would be again: mend it, then go on; the last lines "
                                        r"of its log:\n(  .*\n)*  .*Invalid: this is not the job's\n")
        self.assertIn("--resume", launch.lines[-1])
        self.assertNotIn("starting it again", launch.output)
        self.assertNotIn("did not end when told to", launch.output)
        self.assert_nothing_runs()

    def test_a_program_that_fails_before_its_first_step_again_and_again_ends_the_job(self):
        with self.own("fail") as launch:
            self.assertEqual(launch.wait(), 1, launch.output)
        self.assertRegex(launch.output, r"worker-\d exited with code 1, 3 times in a row, before it had computed a step; the last lines "
                                        r"of its log:\n(  .*\n)*  no such disk")
        self.assert_nothing_runs()

    def test_a_program_that_fails_alone_is_set_aside_and_the_job_ends_without_it(self):
        failing = self.write("failing", "1")
        with self.own("fail-one", failing, steps=harness.ENDLESS, options=("--max-restarts", "2")) as launch:
            launch.wait_for_line("warning: worker-1 is set aside, and the job goes on without it: it exited with code 1 after 2 restarts")
            launch.wait_for_line("  no such disk")
            self.wait_for_steps(recovery.count_records(self.path("run")) + 5)
            self.write("failing", "01")  # now all of them do
            self.assertEqual(launch.wait(), 1, launch.output)
        self.assertIn("warning: no worker is left, and the job stops", launch.output)
        self.assertRegex(launch.output, r"capstan: no worker is left \(worker-0 exited with code 1 .*; worker-1 exited with code 1 after 2 "
                                        r"restarts within an hour\); stopped at step (\d+); the newest snapshot is of version \1")
        self.assert_nothing_runs()

    def test_a_program_that_ends_before_the_job_is_named_and_the_others_go_on(self):
        with self.own("leave-one", steps=harness.ENDLESS) as launch:
            line = launch.wait_for_line("worker-1 exited with code 0 after ")
            self.assertRegex(line, r"^warning: worker-1 .* after \d+ of \d+ steps, and is not started again")
            self.wait_for_steps(recovery.count_records(self.path("run")) + 5)
            recovery.stop(launch)
        self.assertNotIn("worker-0 exited", launch.output)

    def test_a_job_without_programs_stops_with_a_snapshot(self):
        with self.own("leave", steps=harness.ENDLESS) as launch:
            self.assertEqual(launch.wait(), 1, launch.output)
        self.assertIn("warning: no worker is left, and the job stops", launch.output)
        self.assertRegex(launch.output, r"stopped at step \d+; the newest snapshot is of version \d+")
        self.assert_nothing_runs()

    # ---- stopped, and continued

    def test_the_call_that_is_said_at_ctrl_c_goes_on_with_the_same_programs(self):
        with self.own("train", steps=harness.ENDLESS) as launch:
            self.wait_for_steps(5)
            done = recovery.stop(launch)
        call = launch.wait_for_line("to go on: ").split("to go on: ", 1)[1]
        words = shlex.split(call)
        self.assertEqual(words[words.index("--"):], ["--", sys.executable, "-B", PROGRAM, "train"])
        # With both programs, which the second may be too late for otherwise.
        more = ["--set", f"job.steps={done + 20}", "--set", "cluster.min_workers=2"]
        words[words.index("--"):words.index("--")] = more
        with harness.Process("/usr/bin/env", "-u", "PYTHONPATH", *words, cwd=self.folder) as resumed:
            self.assertEqual(resumed.wait(), 0, resumed.output)
        self.assertEqual([step["step"] for step in self.metrics()], list(range(done + 20)))

    def test_a_program_that_waits_is_found_by_the_job_that_is_resumed(self):
        job = self.write("job.toml", JOB.format(steps=harness.ENDLESS))
        with self.launch(job, "--set", "cluster.workers=1") as launch:
            address = harness.own_address(launch)
            package = os.path.join(os.path.dirname(harness.BIN), "lib", "python3", "dist-packages")
            settings = {"CAPSTAN_COORDINATOR": address, "CAPSTAN_WORKER": "mine", "CAPSTAN_INDEX": "0", "CAPSTAN_INDEXES": "1",
                        "PYTHONPATH": package}
            words = [f"{name}={value}" for name, value in settings.items()]
            with harness.Process("/usr/bin/env", *words, sys.executable, "-B", PROGRAM, "train") as program:
                self.wait_for_steps(5)
                done = recovery.stop(launch)
                self.assertIsNone(program.child.poll())
                with self.launch("--resume", "--set", f"job.steps={done + 20}") as resumed:
                    self.assertEqual(resumed.wait(), 0, resumed.output)
                    self.assertIn(address, resumed.output)
                self.assertEqual(program.wait(), 0, program.output)
        self.assertEqual(self.endpoints()["coordinator"], address)

    # ---- what is refused

    def test_a_program_for_a_job_that_has_no_use_for_it_is_refused(self):
        with self.launch(self.job_file(), "--", "python3", "train.py") as launch:
            self.assertEqual(launch.wait(), 2, launch.output)
        self.assertIn('"python3 train.py" would have no part in it', launch.output)
        self.assertIn('kind = "client"', launch.output)
        self.assertFalse(os.path.exists(self.path("run")))

    def test_a_program_that_there_is_not_is_refused(self):
        job = self.write("job.toml", JOB.format(steps=3))
        with self.launch(job, "--", "no-such-program") as launch:
            self.assertEqual(launch.wait(), 2, launch.output)
        self.assertIn('there is no program "no-such-program" in PATH', launch.output)
        self.assertFalse(os.path.exists(self.path("run")))


if __name__ == "__main__":
    harness.main()
