"""capstan launch: the files that a run leaves behind, how it ends, and that no process outlives it."""
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import urllib.request

import harness
from pseudo_terminal import Terminal


def painted_steps(text):
    """Returns the progress lines that a terminal was sent. Leaves out the first two lines: they may have been sent before
    the terminal got its width."""
    return [line for line in text.replace("\n", "\r").split("\r\x1b[K")[2:] if line.startswith("step ")]


class LaunchTest(harness.JobTest):
    def run_job(self, job, *arguments, run="run"):
        with self.launch(job, *arguments, run=run) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
            return launch.output

    def scrape_until(self, address, wanted):
        """Waits until the metrics contain `wanted`: some are updated only a few times per second."""
        def scrape():
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=harness.DEADLINE) as answer:
                return wanted in answer.read().decode()
        harness.poll(scrape, f"{wanted} at {address}")

    def test_a_run_directory_holds_what_is_promised(self):
        output = self.run_job(self.job_file())
        steps = self.metrics()
        self.assertEqual([step["step"] for step in steps], list(range(10)))
        for step in steps:
            self.assertLessEqual({"step", "loss", "lr", "grad_norm", "samples", "seconds", "action", "generation"}, set(step))
            self.assertEqual((step["action"], step["generation"], step["samples"]), ("apply", 1, 12))
        self.assertEqual([step["step"] for step in steps if "validation_loss" in step], [0, 5, 9])
        names, _ = self.weights()
        self.assertEqual(len(names), 4)
        processes = {"coordinator", "server-0", "server-1", "worker-0", "worker-1"}
        self.assertEqual(set(self.pids()), processes)
        endpoints = self.endpoints()
        self.assertEqual(set(endpoints["metrics"]), processes)
        self.assertEqual(len(endpoints["shards"]), 2)
        self.assertIn("final.safetensors", output)
        self.assertIn("validation at step 9", output)
        self.assert_nothing_runs()

    def test_only_its_user_can_read_a_run(self):
        before = os.umask(0o022)
        self.addCleanup(os.umask, before)
        self.run_job(self.job_file())
        modes = {}
        for folder, folders, files in os.walk(self.path("run")):
            for name in [".", *files]:
                path = os.path.normpath(os.path.join(folder, name))
                modes[os.path.relpath(path, self.folder)] = oct(os.stat(path).st_mode & 0o7777)
        self.assertEqual(modes.pop("run/final.safetensors"), "0o644")  # as the umask says
        self.assertEqual(modes.pop("run/lock"), "0o644")
        self.assertGreater(len(modes), 10)
        self.assertEqual({name: mode for name, mode in modes.items()
                          if mode != ("0o700" if os.path.isdir(self.path(name)) else "0o600")}, {})

    def test_who_did_what_is_kept_for_later(self):
        with self.launch(self.job_file(steps=1000000), "--set", "snapshot.every_steps=50", "--set", "snapshot.keep=2") as launch:
            for _ in range(3):
                launch.wait_for_line("snapshot of version ", since=len(launch.lines))
            harness.kill(self.pids()["server-1"])
            launch.wait_for_line("recovered in ")
            harness.kill(launch.pid, signal.SIGINT)
            self.assertEqual(launch.wait(), 130, launch.output)
        path = self.path("run", "audit.jsonl")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        with open(path, encoding="utf-8") as file:
            entries = [json.loads(line) for line in file]
        texts = {}
        for entry in entries:
            self.assertRegex(entry["time"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
            texts.setdefault(entry["what"], []).append(entry.get("text", ""))
        for name in ("server 0 at ", "server 1 at ", '"worker-0"', '"worker-1"'):
            self.assertTrue(any(text.startswith(name) for text in texts["joined"]), entries)
        self.assertTrue(texts["took over"][0].startswith("server 1 at "), entries)
        self.assertTrue(texts["lost"][0].startswith("server 1 was lost and came back"), entries)
        self.assertIn(": [snapshot] keep = 2, and there is one of version ", texts["snapshot deleted"][0])

    def test_the_effective_job_file_gives_the_same_run_again(self):
        self.run_job(self.job_file(), "--set", "job.seed=7")
        self.run_job(self.path("run", "job.toml"), run="again")
        self.assertEqual(self.weights("run"), self.weights("again"))

    def test_every_process_serves_its_metrics(self):
        with self.launch(self.job_file(steps=1000000), "--set", harness.LATE_REPORTS) as launch:
            launch.wait_for_line("status and metrics: http://")
            launch.wait_for_line("running: ")
            launch.wait_for_line("step ")
            addresses = self.endpoints()["metrics"]
            for name, wanted in (("coordinator", "capstan_job_step "), ("server-0", "capstan_server_steps_total"),
                                 ("coordinator", 'capstan_cluster_members{member="shard",state="alive"} 2'),
                                 ("server-1", "capstan_build_info"), ("worker-0", "capstan_build_info"),
                                 ("worker-1", "capstan_worker_steps_total")):
                self.scrape_until(addresses[name], wanted)
            with urllib.request.urlopen(f"http://{self.endpoints()['metrics']['coordinator']}/api/v1/status",
                                        timeout=harness.DEADLINE) as answer:
                self.assertEqual(json.load(answer)["state"], "running")

    def test_ctrl_c_ends_everything(self):
        with self.launch(self.job_file(steps=1000000)) as launch:
            launch.wait_for_line("running: ")
            harness.kill(launch.pid, signal.SIGINT)
            self.assertEqual(launch.wait(), 130, launch.output)
            self.assertIn("stopped at step", launch.output)
        self.assert_nothing_runs()

    def test_ctrl_c_says_at_once_that_it_stops_and_then_how_to_go_on(self):
        with self.launch(self.job_file(steps=1000000)) as launch:
            launch.wait_for_line("step ")
            harness.kill(launch.pid, signal.SIGINT)
            self.assertEqual(launch.wait(), 130, launch.output)
        self.assertIn("stopping: the job takes a last snapshot; Ctrl-C once more leaves at once", launch.lines)
        self.assertEqual(launch.lines[-1], f"capstan: to go on: {harness.program('capstan')} launch --resume --run-dir "
                                           + self.path("run"))
        with harness.Process(*launch.lines[-1].split("to go on: ")[1].split(), cwd=self.folder) as again:
            again.wait_for_line("running: ")

    def test_a_second_ctrl_c_leaves_at_once_and_says_how_to_go_on(self):
        with self.launch(self.job_file(steps=1000000)) as launch:
            launch.wait_for_line("step ")
            harness.kill(self.pids()["coordinator"], signal.SIGSTOP)  # it takes no snapshot
            harness.kill(launch.pid, signal.SIGINT)
            launch.wait_for_line("stopping: ")
            harness.kill(launch.pid, signal.SIGINT)
            self.assertEqual(launch.wait(), 130, launch.output)
        self.assertIn("it was left at once, and there is no snapshot yet: all steps are to be done again", launch.output)
        self.assertIn("to go on: ", launch.lines[-1])
        self.assert_nothing_runs()

    def test_sigterm_to_all_processes_at_once_ends_in_a_last_snapshot_with_the_same_bits(self):
        job = self.job_file(steps=harness.ENDLESS)
        with self.launch(job, "--set", "snapshot.every_steps=1000000") as launch:
            launch.wait_for_line("  loss ")
            pids = self.pids()
            for name in sorted(pids, reverse=True):  # workers, then servers, then the coordinator, as far as they are there
                harness.kill(pids[name], signal.SIGTERM)
            harness.kill(launch.pid, signal.SIGTERM)
            self.assertEqual(launch.wait(), 143, launch.output)
        done = len(self.metrics())
        self.assertIn(f"stopped at step {done}; the newest snapshot is of version {done}", launch.output)
        self.assertNotIn("starting it again", launch.output)
        self.assert_nothing_runs()
        more = "--set", f"job.steps={done + 10}"
        with self.launch("--resume", *more) as resumed:
            self.assertEqual(resumed.wait(), 0, resumed.output)
        self.run_job(job, *more, run="undisturbed")
        self.assertEqual(self.weights(), self.weights("undisturbed"))

    def test_a_process_that_somebody_else_asks_to_end_does_so(self):
        with self.launch(self.job_file(steps=harness.ENDLESS)) as launch:
            launch.wait_for_line("  loss ")
            since = len(launch.lines)
            harness.kill(self.pids()["server-0"], signal.SIGTERM)
            launch.wait_for_line("server-0 exited with code 143; starting it again")
            launch.wait_for_line("running: ", since=since)
            harness.kill(self.pids()["worker-1"], signal.SIGTERM)
            launch.wait_for_line("worker-1 left")
            steps = len(self.metrics())
            harness.poll(lambda: len(self.metrics()) > steps, "a step of the other worker")
            harness.kill(launch.pid, signal.SIGTERM)
            self.assertEqual(launch.wait(), 143, launch.output)

    def test_an_output_that_takes_nothing_stops_no_job_and_no_signal(self):
        for steps, number, code in (10, None, 0), (harness.ENDLESS, signal.SIGTERM, 143):
            run = f"run{code}"
            reader, writer = os.pipe()
            fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
            os.write(writer, b"x" * 4096)
            with open(reader, "rb") as output:
                words = "launch", self.job_file(steps=steps), "--run-dir", self.path(run)
                child = subprocess.Popen([*harness.OBEDIENT, harness.program("capstan"), *words], stderr=writer)
                self.addCleanup(child.wait)
                self.addCleanup(child.kill)
                os.close(writer)
                if number is not None:
                    metrics = self.path(run, "metrics.jsonl")
                    harness.poll(lambda: os.path.exists(metrics) and self.metrics(run), "a step")
                    child.send_signal(number)
                self.assertEqual(child.wait(harness.DEADLINE), code)
                self.assertEqual(output.read(), b"x" * 4096)
            self.assert_nothing_runs(run)
        self.assertTrue(os.path.exists(self.path("run0", "final.safetensors")))

    def test_a_reader_that_goes_away_ends_everything_in_order(self):
        job = self.job_file(steps=1000000)
        script = '"$1" launch "$2" --run-dir "$3" 2>&1 | head -1; echo "ended with ${PIPESTATUS[0]}"'
        with harness.Process("/bin/bash", "-c", script, "bash", harness.program("capstan"), job, self.path("run")) as shell:
            self.assertEqual(shell.wait(), 0, shell.output)
        self.assertEqual(shell.lines[-1], f"ended with {128 + signal.SIGPIPE}")
        self.assert_nothing_runs()

    def test_a_run_is_looked_at_and_stopped_from_another_terminal(self):
        capstan = harness.program("capstan")
        job = self.job_file(steps=1000000)
        with harness.Process(capstan, "launch", job, cwd=self.folder) as launch:
            launch.wait_for_line("  loss ")

            def status():  # the coordinator writes it down twice a second
                with harness.Process(capstan, "status", cwd=self.folder) as status:
                    self.assertEqual(status.wait(), 0, status.output)
                return re.search(r"^runs/small-[-\d]+: step \d+ of 1000000, loss [-+.e\d]{1,10}, workers: 2, running; http://127\.", status.output)
            harness.poll(status, "a status with a loss")
            with harness.Process(capstan, "stop", cwd=self.folder) as stop:
                self.assertEqual(stop.wait(), 0, stop.output)
            self.assertRegex(stop.output, r"stopping runs/small-[-\d]+ \(process \d+\)")
            self.assertIn(f"to go on: {capstan} launch --resume --run-dir runs/small-", stop.output)
            self.assertEqual(launch.wait(), 130, launch.output)
        run = os.path.join("runs", os.listdir(self.path("runs"))[0])
        for words, code, said in ((("status",), 0, f"{run}: not running; to go on: {capstan} launch --resume --run-dir {run}"),
                                  (("stop",), 2, "no job runs in a directory under runs/ here"),
                                  (("stop", run), 2, f"no job runs in {run}"),
                                  (("status", "nowhere"), 2, "there is no run directory nowhere")):
            with self.subTest(words), harness.Process(capstan, *words, cwd=self.folder) as command:
                self.assertEqual(command.wait(), code, command.output)
                self.assertIn(said, command.output)

    def test_a_terminal_that_closes_ends_everything(self):
        with self.launch(self.job_file(steps=1000000)) as launch:
            launch.wait_for_line("running: ")
            harness.kill(launch.pid, signal.SIGHUP)
            self.assertEqual(launch.wait(), 129, launch.output)
            self.assertIn("stopped at step", launch.output)
        self.assert_nothing_runs()

    def test_under_nohup_the_job_outlives_its_terminal(self):
        with harness.Process("/usr/bin/nohup", harness.program("capstan"), "launch", self.job_file(steps=1000000),
                             "--run-dir", self.path("run")) as launch:
            launch.wait_for_line("running: ")
            harness.kill(launch.pid, signal.SIGHUP)
            harness.kill(self.pids()["coordinator"], signal.SIGHUP)
            lines = len(self.metrics())
            harness.poll(lambda: len(self.metrics()) > lines, "a step after the signal")
            harness.kill(launch.pid, signal.SIGTERM)
            self.assertEqual(launch.wait(), 143, launch.output)

    def test_children_end_when_the_launcher_is_killed(self):
        with self.launch(self.job_file(steps=1000000)) as launch:
            launch.wait_for_line("running: ")
            pids = self.pids()
            harness.kill(pids["server-1"], signal.SIGSTOP)  # one that stands still, too
            harness.kill(launch.pid)
            launch.wait()  # its output ends when nobody holds it open
        harness.poll(lambda: all(harness.ended(pid) for pid in pids.values()), "the end of all children")

    def test_a_process_that_dies_ends_the_job_and_is_named(self):
        for victim in ("worker-1", "server-0", "coordinator"):
            with self.subTest(victim), self.launch(self.job_file(steps=1000000), "--max-restarts", "0",
                                                           run=victim) as launch:
                launch.wait_for_line("running: ")
                harness.kill(self.pids(victim)[victim])
                self.assertEqual(launch.wait(), 1, launch.output)
                self.assertIn(f"{victim} was killed by signal 9", launch.output)
                self.assertIn("last lines of its log", launch.output)
                self.assert_nothing_runs(victim)

    def test_a_stranger_that_knocks_does_not_end_a_running_job(self):
        job = self.job_file(steps=1000000)
        with self.launch(job, "--set", f"cluster.coordinator={harness.HOST}:0") as launch:
            launch.wait_for_line("running: ")
            with harness.Process(harness.program("capstan-server"), job, "--index", "0", "--set", "job.seed=9", "--set",
                                 f"cluster.coordinator={self.endpoints()['coordinator']}", cwd=self.folder) as stranger:
                self.assertEqual(stranger.wait(), 1, stranger.output)
                self.assertIn("another job file", stranger.output)
            launch.wait_for_line("another job file")
            steps = len(self.metrics())
            harness.poll(lambda: len(self.metrics()) > steps, "a step after the stranger knocked")
            harness.kill(launch.pid, signal.SIGINT)
            self.assertEqual(launch.wait(), 130, launch.output)
        self.assert_nothing_runs()

    def test_a_coordinator_that_dies_as_soon_as_it_is_ready_is_named(self):
        os.mkdir(self.path("bin"))
        for name in ("capstan", "capstan-worker"):
            shutil.copy(harness.program(name), self.path("bin", name))
        server = self.write("bin/capstan-server", """#!/bin/sh
echo '{"event": "ready", "addresses": ["127.0.0.1:1"], "metrics": "127.0.0.1:2"}' >&3
echo last words
exit 5
""")
        os.chmod(server, 0o755)
        for run in range(5):  # the event and the end are seen together, or one after the other
            with harness.Process(self.path("bin", "capstan"), "launch", self.job_file(), "--run-dir",
                                 self.path(f"run{run}")) as launch:
                self.assertEqual(launch.wait(), 1, launch.output)
                self.assertRegex(launch.output, "(coordinator|server-[01]) exited with code 5; the last lines of its log")
            self.assert_nothing_runs(f"run{run}")

    def test_a_start_that_failed_leaves_the_run_directory_free(self):
        elsewhere = harness.HOST.replace("127", "203")  # an address that this machine does not have
        with self.launch(self.job_file(), "--allow-plaintext", "--set", f"cluster.listen={elsewhere}:1") as launch:
            self.assertEqual(launch.wait(), 1, launch.output)
        self.run_job(self.job_file())

    def test_data_that_are_missing_are_said_before_anything_is_started(self):
        missing = self.path("nothing.csv")
        with self.launch(self.job_file(data=f'kind = "csv"\npath = "{missing}"')) as launch:
            self.assertEqual(launch.wait(), 2, launch.output)
        self.assertIn(missing, launch.output)
        self.assertFalse(os.path.exists(self.path("run")))

    def test_a_job_that_is_too_large_for_the_machine_is_refused_before_anything_is_started(self):
        job = self.job_file()
        script = 'ulimit -v 3000000; exec "$0" launch "$@"'  # servers have 40 bytes of a parameter, workers fewer
        words = (job, "--run-dir", self.path("run"), "--set", "model.hidden=[11000, 11000]", "cluster.servers=1")
        with harness.Process("/bin/sh", "-c", script, harness.program("capstan"), *words) as launch:
            self.assertEqual(launch.wait(), 2, launch.output)
        self.assertRegex(launch.output, r"a server of this job needs [\d.]+ GiB, and the address space of each process \(ulimit -v\)")
        self.assertRegex(launch.output, r"\n  1 server: [\d.]+ GiB \(\d+ parameters of 40 bytes each")
        self.assertRegex(launch.output, r"\n  2 workers: [\d.]+ GiB, each [\d.]+ [GM]iB")
        self.assertIn("fewer [cluster] workers", launch.output)
        self.assertFalse(os.path.exists(self.path("run")))

    # ---- arguments and messages

    def call(self, *words):
        """Calls capstan with words that start no job. Returns the exit code and the output."""
        with harness.Process(harness.program("capstan"), *words, cwd=self.folder) as call:
            return call.wait(), call.output

    def test_calls_that_are_not_quite_right_are_told_what_to_write(self):
        job = self.job_file()
        for words, said in (((job, "--set", "optimizer.lr", "0.1"), "write --set optimizer.lr=0.1"),
                            ((job, "--workers", "4"), "there is no option --workers; the job file has it: write --set cluster.workers=4"),
                            ((job, "-w", "4"), "write --set cluster.workers=4"),
                            ((job, "--rundir", "x"), 'there is no option --rundir; did you mean "--run-dir"?'),
                            ((job, "python3", "train.py"), '"python3 train.py" is not expected here'),
                            ((job, "\x1b[31mred"), r'"\x1B[31mred" is not expected here')):
            with self.subTest(words):
                code, output = self.call("launch", *words)
                self.assertEqual(code, 2)
                self.assertIn(said, output)

    def test_several_assignments_behind_one_set_hold(self):
        code, output = self.call("launch", self.job_file(), "--set", "job.steps=7", "cluster.workers=5", "--print-config")
        self.assertEqual(code, 0)
        self.assertIn("steps = 7\n", output)
        self.assertIn("\nworkers = 5\n", output)

    def test_help_is_a_command_too(self):
        for words in (("help",), ("help", "launch")):
            self.assertEqual(self.call(*words), self.call(*words[1:], "--help"))
            self.assertEqual(self.call(*words)[0], 0)

    def test_a_quiet_launch_says_nothing_of_a_job_that_goes_well(self):
        self.assertEqual(self.run_job(self.job_file(), "--quiet", "--set", "cluster.servers=1", harness.LATE_REPORTS), "")
        self.assertEqual(len(self.weights()[0]), 4)

    def test_a_terminal_is_asked_for_its_width_again_and_again_and_warnings_stand_out(self):
        job = self.job_file(steps=1000000)
        for no_color in ("", "1"):
            words = [harness.program("capstan"), "launch", job, "--run-dir", run := self.path(f"run{no_color}")]
            with self.subTest(no_color), Terminal(*words, columns=100, NO_COLOR=no_color) as launch:
                launch.wait_for(lambda terminal: "step 3" in terminal.text, "a step")
                launch.resize(12, 24)
                since = len(launch.text)  # wide lines that were written before may still arrive
                launch.wait_for(lambda terminal: (steps := painted_steps(terminal.text[since:])) and len(steps[-1]) < 12, "a short line")
                since = len(launch.text)
                launch.wait_for(lambda terminal: len(painted_steps(terminal.text[since:])) > 3, "more lines")
                self.assertLess(max(map(len, painted_steps(launch.text[since:]))), 12, launch.text)
                launch.resize(100, 24)
                launch.wait_for(lambda terminal: painted_steps(terminal.text)[-1].endswith(" left"), "a whole line")
                harness.kill(harness.read_pid(os.path.join(run, "pids", "worker-0")))
                launch.wait_for(lambda terminal: "starting it again" in terminal.text, "a restart")
                self.assertEqual("\x1b[1;33mwarning:\x1b[0m worker-0 was killed" in launch.text, not no_color)
                self.assertEqual("warning: worker-0 was killed" in launch.text, bool(no_color))
                launch.child.send_signal(signal.SIGINT)
                launch.wait_for(lambda terminal: "to go on: " in terminal.text, "the end")
                self.assertEqual(launch.wait(), 130)

    def test_a_run_directory_is_used_once_and_by_one(self):
        job = self.job_file(steps=1000000)
        with self.launch(job) as launch:
            launch.wait_for_line("running: ")
            with self.launch(job) as second:
                self.assertEqual(second.wait(), 2)
                self.assertIn("is in use by another job", second.output)
            launch.wait_for_line("step ")
            harness.kill(launch.pid, signal.SIGTERM)
            self.assertEqual(launch.wait(), 143, launch.output)
        with self.launch(job) as third:
            self.assertEqual(third.wait(), 2)
            self.assertIn("holds a run already", third.output)


    def files(self, folder):
        """Returns the bytes of all files in a folder, also behind links, by path."""
        found = {}
        for where, _, names in os.walk(folder, followlinks=True):
            for name in names:
                with open(os.path.join(where, name), "rb") as file:
                    found[os.path.join(where, name)] = file.read()
        return found

    def assert_refused(self, run, *words):
        """Checks that `capstan launch`, and a coordinator that is started by hand, refuse this run directory and change nothing
        in it."""
        job, before, elsewhere = self.path(run, "job.toml"), self.files(self.path(run)), self.path("a.toml")
        shutil.copy(job if os.path.exists(job) else self.job_file(), elsewhere)
        calls = [["capstan", "launch", elsewhere], ["capstan-server", elsewhere, "--coordinator", "--set", "job.seed=77"]]
        for words_of_call in calls:
            with harness.Process(harness.program(words_of_call[0]), *words_of_call[1:], "--run-dir", self.path(run),
                                 cwd=self.folder) as process:
                self.assertIn(process.wait(), (1, 2), process.output)
                for word in (*words, self.path(run), "--run-dir"):
                    self.assertIn(word, process.output)
            after = self.files(self.path(run))
            for files in (before, after):
                files.pop(self.path(run, "lock"), None)
            self.assertEqual(after, before)

    def test_what_a_new_run_did_not_make_stays(self):
        """A run whose metrics.jsonl was emptied or removed, and folders of the user's own, are refused and not changed."""
        with self.launch(self.job_file(steps=1000000), "--set", "snapshot.every_steps=50") as launch:
            launch.wait_for_line("snapshot of version")
            harness.kill(launch.pid, signal.SIGTERM)
            self.assertEqual(launch.wait(), 143, launch.output)
        with open(self.path("run", "metrics.jsonl"), "wb"):
            pass
        self.assert_refused("run", "holds a run")
        os.unlink(self.path("run", "metrics.jsonl"))
        self.assert_refused("run", "holds a run")
        for name in ("mine", "linked", "jobs"):
            os.makedirs(self.path(name))
        os.makedirs(self.path("mine", "snapshots"))
        os.makedirs(self.path("photos"))
        self.write("mine/snapshots/photo.jpg", "of the sea")
        self.write("photos/photo.jpg", "of the hills")
        os.symlink(self.path("photos"), self.path("linked", "snapshots"))
        shutil.copy(self.job_file(), self.path("jobs", "job.toml"))
        self.assert_refused("mine", "photo.jpg is in the way")
        self.assert_refused("linked", "photo.jpg is in the way")
        self.assert_refused("jobs", "job.toml is in the way")

    def test_logs_that_are_large_are_put_aside_while_their_processes_run(self):
        os.makedirs(self.path("run", "logs"))
        names = ["coordinator", "server-0", "worker-0"]
        for name in names:
            with open(self.path("run", "logs", f"{name}.log"), "wb") as file:
                file.truncate(16 << 20)
        with self.launch(self.job_file(steps=1000000)) as launch:
            sizes = lambda: [os.path.getsize(self.path("run", "logs", f"{name}{piece}.log"))
                             for name in names for piece in ("", ".1")]

            def put_aside():
                with contextlib.suppress(FileNotFoundError):  # not yet, or at this moment
                    return max(sizes()[::2]) < 1 << 20
                return launch.closed
            harness.poll(put_aside, "logs that are put aside")
            harness.kill(launch.pid, signal.SIGTERM)
            self.assertEqual(launch.wait(), 143, launch.output)
        for name in names:  # what each said before and after, and nothing twice
            with open(self.path("run", "logs", f"{name}.1.log"), "rb") as file:
                file.seek(16 << 20)
                text = file.read()
            with open(self.path("run", "logs", f"{name}.log"), "rb") as file:
                text += file.read()
            lines = text.decode().splitlines()
            self.assertTrue(lines, name)
            self.assertTrue(all(line[2:3] == ":" and line[12:13] == " " for line in lines), lines)


if __name__ == "__main__":
    harness.main()
