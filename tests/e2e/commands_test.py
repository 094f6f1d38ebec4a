#!/usr/bin/python3
"""The commands that look at a job, running and ended, by its run directory and by its address: status, top, logs, plot,
metrics, and their JSON."""
import contextlib
import csv
import http.server
import io
import json
import os
import re
import signal
import socket
import subprocess
import threading
import xml.etree.ElementTree

import harness
import metrics_access
from pseudo_terminal import END_OF_PICTURE, FIRST_SCREEN, SECOND_SCREEN, Terminal

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class CommandTest(harness.JobTest):
    def capstan(self, *words, code=0, **environment):
        """Runs a command without a terminal; returns what it printed on stdout, and on stderr."""
        ran = subprocess.run([harness.program("capstan"), *words], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True,
                             text=True, errors="replace", timeout=harness.DEADLINE, check=False,
                             env={**os.environ, "LC_ALL": "C", **environment})
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return ran.stdout, ran.stderr

    def output(self, *words, **options):
        return self.capstan(*words, **options)[0]

    def run_job(self, *settings, run="run"):
        arguments = [word for setting in settings for word in ("--set", setting)]
        launch = self.enterContext(self.launch(self.job_file(steps=harness.ENDLESS), *arguments, run=run))
        launch.wait_for_line("  loss ")
        self.enterContext(self.slow_workers(run))
        return launch

    def stop(self, launch, run="run"):
        harness.kill(launch.pid, signal.SIGINT)
        self.assertEqual(launch.wait(), 130, launch.output)
        self.assert_nothing_runs(run)

    def end_job(self, *settings, run="run"):
        arguments = [word for setting in settings for word in ("--set", setting)]
        with self.launch(self.job_file(steps=20), *arguments, run=run) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)

    def terminal(self, *words, **options):
        return self.enterContext(Terminal(harness.program("capstan"), *words, cwd=self.folder, **options))


class RunningJobTest(CommandTest):
    def test_a_running_job_is_seen_by_its_directory_and_by_its_address(self):
        launch = self.run_job(harness.LATE_REPORTS)
        address = self.endpoints()["metrics"]["coordinator"]
        harness.poll(lambda: "loss" in json.loads(self.output("status", "run", "-o", "json"))["status"], "a status with a loss")
        for word, name in (("run", "run"), (address, address), (f"http://{address}/", address)):
            with self.subTest(word):
                self.assertRegex(self.output("status", word), rf"^{name}: step \d+ of {harness.ENDLESS}, loss .*; http://{address}/\n")
                status = json.loads(self.output("status", word, "-o", "json"))
                self.assertEqual((status["state"], status["url"], status["status"]["job"]), ("running", f"http://{address}/", "small"))
                self.assertEqual(status.get("run_dir"), "run" if word == "run" else None)
                picture = self.output("top", word).splitlines()
                self.assertRegex(picture[0], rf"^small: running +{name}$")
                self.assertRegex(picture[1], rf"^step \d+ of {harness.ENDLESS} ")
                self.assertTrue(any(re.match(r"worker-0 +\w+ +step \d+", line) for line in picture), picture)
                self.assertTrue(any(re.match(r"server 1 +alive", line) for line in picture), picture)
                lines = self.output("top", word, "-o", "json", "--every", "0.1", "--count", "3").splitlines()
                looks = [json.loads(line) for line in lines]
                self.assertEqual([look["state"] for look in looks], ["running"] * 3)
                steps = [look["status"]["step"] for look in looks]
                self.assertEqual(steps, sorted(steps))
        self.assertTrue(any("loss by step" in line for line in self.output("top", "run").splitlines()), "no curve")
        said = json.loads(self.output("stop", "run", "-o", "json"))
        self.assertEqual((said["run_dir"], said["state"]), ("run", "not running"))
        self.assertIn("launch --resume --run-dir", said["text"])
        self.assertEqual(launch.wait(), 130, launch.output)

    def test_a_token_opens_the_pages_of_an_address(self):
        token = metrics_access.write_token(self.path("token"))
        launch = self.run_job("metrics.token_file=token", harness.LATE_REPORTS)
        address = self.endpoints()["metrics"]["coordinator"]
        self.assertIn("workers: 2", self.output("status", "run"))
        self.assertIn("401", self.capstan("status", address, code=1)[1])
        self.assertIn("workers: 2", self.output("status", address, "--metrics-token-file", token))
        self.assertIn("small: running", self.output("top", address, "--metrics-token-file", token))
        self.stop(launch)

    def test_words_that_are_no_run_and_no_address_are_refused(self):
        for words, said in ((("status", "nowhere"), "there is no run directory nowhere; the address of"),
                            (("top", "nowhere"), "there is no run directory nowhere"),
                            (("status", "https://127.0.0.1:1"), "--metrics-certificate FILE"),
                            (("logs", "nowhere"), "there is no run directory nowhere"),
                            (("plot", "nowhere"), "there is no run directory nowhere"),
                            (("metrics", "nowhere"), "there is no run directory nowhere"),
                            (("top",), "there is no run under runs/ here"),
                            (("plot", "--to", "a.png"), "pictures are written as SVG"),
                            (("metrics", "--to", "xlsx"), "xlsx")):
            with self.subTest(words):
                out, err = self.capstan(*words, code=2)
                self.assertEqual(out, "")
                self.assertIn(said, err)
        address = harness.free_address()
        self.assertIn(address, self.capstan("status", address, code=1)[1])
        out, err = self.capstan("top", address, "--patience", "1", "--every", "0.2", "--count", "1000", code=1)
        self.assertIn("giving up in 1 s", out)
        self.assertIn("given up", err)

    def test_logs_of_a_running_job_are_followed_through_a_restart_to_its_end(self):
        launch = self.run_job("limits.join=60")
        everything = self.output("logs", "run")
        self.assertLess(everything.index("coordinator | "), everything.index("worker-1    | "), everything)
        times = re.findall(r"^\S+ +\| (\d\d:\d\d:\d\d\.\d{3}) ", everything, re.M)
        self.assertGreater(len(times), 6)
        self.assertEqual(times, sorted(times))
        follow = self.enterContext(harness.Process(harness.program("capstan"), "logs", "run", "-f", "-n", "1", cwd=self.folder))
        one = self.enterContext(harness.Process(harness.program("capstan"), "logs", "run", "server-0", "-f", "-n", "0", cwd=self.folder))
        follow.wait_for_line("worker-0    | ")
        lines = len(follow.lines)
        log = self.path("run", "logs", "worker-0.log")
        os.rename(log, self.path("run", "logs", "worker-0.1.log"))  # as a rotation does; the process goes on in the old piece
        harness.kill(self.pids()["worker-0"])
        follow.wait_for_line('worker-0    | ', since=lines)
        follow.wait_for_line('memory: ', since=lines)
        self.assertTrue(os.path.exists(log), "the process that was started again has no new log")
        self.stop(launch)
        for process in (follow, one):
            self.assertEqual(process.wait(), 0, process.output)
            self.assertIn("no job runs in run: there is nothing to follow", process.output)
        self.assertNotIn(" | ", one.output)
        self.assertNotIn("worker", one.output)

    def test_following_ends_by_a_signal(self):
        launch = self.run_job()
        with harness.Process(harness.program("capstan"), "logs", "run", "-f", cwd=self.folder) as follow:
            follow.wait_for_line("coordinator | ")
            harness.kill(follow.pid, signal.SIGINT)
            self.assertEqual(follow.wait(), 130, follow.output)
        self.stop(launch)


class Pages(http.server.BaseHTTPRequestHandler):
    """The pages of a coordinator whose answers a test chooses."""

    def do_GET(self):
        answer = self.server.answers.get(self.path)
        if answer is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for piece in answer() if callable(answer) else (answer,):
                self.wfile.write(piece if isinstance(piece, bytes) else json.dumps(piece).encode())

    def log_message(self, *_):
        pass


class OtherCoordinatorTest(CommandTest):
    """Coordinators of other versions, and programs that are none."""

    STATUS = {"role": "coordinator", "job": "far", "state": "running", "step": 30, "steps": 60, "loss": 1.5, "samples_per_second": 250.0,
              "step_seconds": 0.5, "grad_norm": 0.25, "seconds_left": 15, "worker_count": 1, "shard_count": 1,
              "bound_by": {"what": "worker", "who": "w1", "sentence": "w1 is the slowest worker"},
              "workers": [{"worker": "w1", "state": "computing", "step": 29, "slots": "0", "last_heard": "0 s ago", "lag": 1}],
              "shards": [{"shard": "server 0", "state": "alive", "address": "tcp://10.0.0.1:1"}],
              "snapshots": [{"version": 20, "age_seconds": 4}]}
    HISTORY = {"points": [{"step": step, "time": 1.0, "loss": 3 - step / 20} for step in range(30)], "steps_per_point": 1,
               "events": [{"time": 1700000000, "step": 20, "kind": "snapshot", "text": "a snapshot of version 20"}]}

    def serve(self, status, history=None):
        server = http.server.ThreadingHTTPServer((harness.HOST, 0), Pages)
        server.answers = {"/api/v1/status": status, **({"/api/v1/history": history} if history is not None else {})}
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        self.addCleanup(lambda: (server.shutdown(), thread.join(), server.server_close()))
        return f"{harness.HOST}:{server.server_port}"

    def test_what_a_coordinator_knows_of_speed_limits_and_events_is_shown(self):
        address = self.serve(self.STATUS, self.HISTORY)
        self.assertIn("\n  250 samples/s, 15 s left; bound by: w1 is the slowest worker\n", self.output("status", address))
        picture = self.output("top", address)
        for text in ("far: running", "step 30 of 60 [####", " 50 %  15 s left", "loss 1.5  grad norm 0.25  250 samples/s  0.5 s/step",
                     "snapshot 20, 4 s ago", "bound by: w1 is the slowest worker", "loss by step", "step 29  lag 1  slots 0",
                     "step 20  a snapshot of version 20"):
            self.assertIn(text, picture)
        self.assertIn("*", picture)

    def test_an_older_coordinator_has_no_curve_and_no_speed(self):
        picture = self.output("top", self.serve({"state": "running", "job": "old", "step": 3, "steps": 6}))
        self.assertIn("old: running", picture)
        self.assertNotIn("loss by step", picture)

    def test_texts_of_a_coordinator_control_no_terminal(self):
        evil = "\x1b]0;title\x07\x1b[2J\r\n\u202e" + "x" * 10000
        status = {**self.STATUS, "job": evil, "state": evil, "waiting": evil, "failure": evil, "bound_by": {"sentence": evil},
                  "workers": [{"worker": evil, "state": evil, "slots": evil, "last_heard": evil}] * 1000,
                  "shards": [{"shard": evil, "state": evil, "address": evil}]}
        history = {"points": [{"step": step, "loss": 1e308 * (-1) ** step} for step in range(100)],
                   "events": [{"time": evil, "text": evil}] * 1000}
        status["workers"] = status["workers"][:20]
        history["events"] = history["events"][:20]
        address = self.serve(status, history)
        for words in (("status",), ("top",), ("status", "-o", "json"), ("top", "-o", "json", "--count", "1")):
            out, err = self.capstan(words[0], address, *words[1:])
            self.assertEqual(CONTROL.findall(out + err), [])
            self.assertNotIn("\u202e", "" if "json" in words else out)

    def test_a_program_that_is_no_coordinator_is_named_and_ends_nothing_but_the_wait(self):
        def drip():
            while True:
                threading.Event().wait(0.05)
                yield b" "
        for answer in (b"", b"\xff\xfe", b"<html>", [], {"state": 5}, b"[" * 1000000, b'{"state": "' + b"x" * 5000000 + b'"}', drip):
            address = self.serve(answer)
            with self.subTest(str(answer)[:30]):
                self.assertIn(address, self.capstan("status", address, code=1)[1])
        hostile = [{"points": 5, "events": [[]]}, [], {"points": [None, {"step": -1}, {"step": 1e300, "loss": 1}]}, b"{"]
        for history in hostile:
            self.assertIn("far: running", self.output("top", self.serve(self.STATUS, history)))
        with socket.create_server((harness.HOST, 0)) as silent:
            address = "{}:{}".format(*silent.getsockname())
            self.assertIn("no answer within", self.capstan("status", address, code=1)[1])


class EndedRunTest(CommandTest):
    def test_an_ended_run_has_a_state_a_picture_and_logs(self):
        self.end_job()
        status = json.loads(self.output("status", "run", "-o", "json"))
        self.assertEqual((status["state"], status["done_steps"]), ("done", 20))
        self.assertIn("run: done, 20 steps; weights: run/final.safetensors", self.output("status", "run"))
        picture = self.output("top", "run").splitlines()
        self.assertRegex(picture[0], "^small: done +run$")
        self.assertIn("done, 20 steps; weights: run/final.safetensors", picture[1])
        self.assertRegex("\n".join(picture), r"step 20 of 20 \[#+\] 100 %")
        self.assertIn("loss by step", "\n".join(picture))
        self.assertLess(max(len(line) for line in picture), 81)
        self.assertEqual(json.loads(self.output("top", "run", "-o", "json"))["state"], "done")
        out, err = self.capstan("logs", "run", "-f")
        self.assertIn("coordinator | ", out)
        self.assertIn("nothing to follow", err)

    def test_logs_are_chosen_by_name_and_by_number_and_have_no_control_byte(self):
        self.end_job()
        with open(self.path("run", "logs", "worker-0.log"), "ab") as log:
            log.write(b"an old bar \r\x1b]0;title\x07\x1b[2J\xff a\tb\nhalf \x9b31m")
        for words in (("logs", "run"), ("logs", "run", "worker-0"), ("logs", "run", "-o", "json")):
            out = self.output(*words)
            self.assertEqual(CONTROL.findall(out), [], out[-500:])
        out = self.output("logs", "run", "worker-0", "-n", "2")
        self.assertEqual(out, "\\x1B]0;title\\x07\\x1B[2J\\xFF a\tb\nhalf \\x9B31m\n")
        objects = [json.loads(line) for line in self.output("logs", "run", "-n", "1", "-o", "json").splitlines()]
        self.assertEqual({entry["process"] for entry in objects}, {"coordinator", "server-0", "server-1", "worker-0", "worker-1"})
        self.assertEqual(len(objects), 5)
        self.assertEqual(self.output("logs", "run", "-n", "0"), "")
        err = self.capstan("logs", "run", "worker-9", code=2)[1]
        self.assertIn('there is no log of a process "worker-9" in run/logs; did you mean "worker-', err)
        os.makedirs(self.path("runs"))
        os.rename(self.path("run"), self.path("runs", "run"))
        self.assertIn("half", self.output("logs", "worker-0"))  # a name alone, of the newest run

    def test_a_reader_that_goes_away_ends_the_command(self):
        self.end_job()
        script = '"$1" logs run | head -1 && "$1" metrics run | head -1 && "$1" top run | head -1'
        with harness.Process("/bin/bash", "-c", script, "bash", harness.program("capstan"), cwd=self.folder) as shell:
            self.assertEqual(shell.wait(), 0, shell.output)
            self.assertEqual(len(shell.lines), 3)

    def test_an_output_that_cannot_be_written_is_a_failure(self):
        self.end_job()
        for name in ("status", "top", "logs", "plot", "metrics"):
            with self.subTest(name), open("/dev/full", "wb") as full:
                ran = subprocess.run([harness.program("capstan"), name, "run"], cwd=self.folder, stdout=full, stderr=subprocess.PIPE, text=True,
                                     timeout=harness.DEADLINE, check=False)
                self.assertEqual(ran.returncode, 1)
                self.assertIn("the output cannot be written whole", ran.stderr)

    def test_metrics_are_a_table_in_csv_and_in_json(self):
        self.end_job()
        steps = self.metrics()
        rows = list(csv.DictReader(io.StringIO(self.output("metrics", "run"))))
        self.assertEqual(list(rows[0])[:4], ["step", "loss", "lr", "grad_norm"])
        self.assertEqual([int(row["step"]) for row in rows], list(range(20)))
        self.assertEqual([float(row["loss"]) for row in rows], [step["loss"] for step in steps])
        self.assertEqual([row["validation_loss"] != "" for row in rows], ["validation_loss" in step for step in steps])
        self.assertEqual([json.loads(line) for line in self.output("metrics", "run", "--to", "jsonl").splitlines()], steps)
        few = [json.loads(line) for line in self.output("metrics", "run", "-o", "json", "--keys", "loss,step").splitlines()]
        self.assertEqual(few, [{"loss": step["loss"], "step": step["step"]} for step in steps])
        self.assertEqual(self.output("metrics", "run", "--keys", "step,action").splitlines()[:2], ["step,action", "0,apply"])
        self.assertIn('has "los"; did you mean "loss"?', self.capstan("metrics", "run", "--keys", "los", code=2)[1])

    def test_of_a_step_that_was_done_again_the_table_has_the_last_record(self):
        self.end_job()
        path = self.path("run", "metrics.jsonl")
        with open(path, "a", encoding="utf-8") as file:
            file.write('not a step\n{"step": 18, "loss": null, "generation": 9}\n{"step": 19, "loss": 0.5, "generation": 9}\n{"step": 20')
        out, err = self.capstan("metrics", "run", "--keys", "step,loss,lr")
        self.assertEqual(out.splitlines()[-3:][1:], ["18,nan,", "19,0.5,"])
        self.assertEqual(len(out.splitlines()), 21)
        self.assertIn("1 lines of run/metrics.jsonl have no step", err)
        os.rename(path, self.path("run", "metrics.1.jsonl"))
        self.assertEqual(self.output("metrics", "run", "--keys", "step,loss,lr"), out)

    def test_texts_of_records_control_no_terminal_and_a_nested_one_is_no_record(self):
        self.end_job()
        path = self.path("run", "metrics.jsonl")
        with open(path, "a", encoding="utf-8") as file:
            file.write('{"step": 20, "generation": 9, "a\\u001b]0;x": "b\\u001b[2J", "\x9b2J": 1}\n'
                       '{"step": 21, "generation": 9, "deep": ' + "[" * 400_000 + "]" * 400_000 + "}\n")
        table, err = self.capstan("metrics", "run")
        self.assertIn("a\\x1B]0;x", table.splitlines()[0])
        self.assertIn("b\\x1B[2J", table.splitlines()[-1])
        self.assertNotRegex(table, CONTROL)
        self.assertIn("1 lines of run/metrics.jsonl have no step", err)
        shown = self.terminal("metrics", "run", "--to", "jsonl")
        shown.wait_for(lambda terminal: "have no step" in terminal.text, "the last line")
        self.assertIn("\\xC2\\x9B2J", shown.text)
        self.assertNotRegex(shown.text.replace("\r\n", "\n"), CONTROL)

    def test_curves_are_drawn_in_the_terminal_and_as_a_picture(self):
        self.end_job()
        self.end_job("optimizer.lr=0.1", run="fast")
        out = self.output("plot", "run")
        self.assertIn("*", out)
        self.assertRegex(out, r"\* run: [\d.]+ at step 19\n$")
        self.assertLess(max(len(line) for line in out.splitlines()), 81)
        out = self.output("plot", "run", "fast", "--key", "validation_loss")
        self.assertRegex(out, r"a run: [\d.]+ at step 19\nb fast: [\d.]+ at step 19\n$")
        self.assertIn("validation_loss by step", out)
        self.assertRegex(self.output("plot", "run", LC_ALL="C.UTF-8"), "[\u2801-\u28ff]")
        self.assertEqual(self.output("plot", "run", "fast", "--to", "loss.svg"), "")
        picture = xml.etree.ElementTree.parse(self.path("loss.svg")).getroot()
        self.assertEqual(len(picture.findall("{http://www.w3.org/2000/svg}polyline")), 2)
        self.assertIn("no step in run/metrics.jsonl has \"los\"; did you mean \"loss\"?", self.capstan("plot", "run", "--key", "los", code=2)[1])
        self.assertIn("cannot write none/a.svg", self.capstan("plot", "run", "--to", "none/a.svg", code=1)[1])

    def test_keys_are_made_with_their_data_in_json(self):
        made = json.loads(self.output("keygen", "keys", "-o", "json"))
        self.assertRegex(made["coordinator_key"], "^[0-9a-f]{64}$")
        added = json.loads(self.output("keygen", "keys", "--add", "reader", "--name", "ann", "-o", "json"))
        self.assertEqual((added["role"], added["file"]), ("reader", self.path("keys", "ann.key")))
        self.assertEqual(json.loads(self.output("keygen", "keys", "--revoke", "ann", "-o", "json")), {"folder": "keys", "revoked": "ann"})


class TerminalTest(CommandTest):
    def fits(self, terminal, columns, rows):
        lines = terminal.picture
        return 0 < len(lines) <= rows and max(map(len, lines)) <= columns

    def test_top_follows_the_size_of_its_terminal_and_restores_it(self):
        launch = self.run_job()
        top = self.terminal("top", "run", "--every", "0.2")
        top.wait_for(lambda terminal: any("worker-0" in line for line in terminal.picture), "a picture")
        self.assertTrue(top.text.startswith(SECOND_SCREEN))
        self.assertFalse(top.is_as_before())
        self.assertTrue(self.fits(top, 80, 24), top.picture)
        for columns, rows in ((40, 24), (120, 50), (30, 5), (1, 1), (80, 24)):
            shown = len(top.text)
            top.resize(columns, rows)
            top.wait_for(lambda terminal: END_OF_PICTURE in terminal.text[shown:] and self.fits(terminal, columns, rows)
                         and (columns < 80 or rows < 24 or "q: quit" in terminal.picture), f"a picture of {columns} by {rows}")
        top.press(b"x")
        top.press(b"q")
        self.assertEqual(top.wait(), 0)
        top.wait_for(lambda terminal: terminal.text.endswith(FIRST_SCREEN), "the first screen")
        self.assertTrue(top.is_as_before(), "the terminal's settings are not restored")
        self.stop(launch)

    def test_top_restores_the_terminal_however_it_ends(self):
        launch = self.run_job()
        for how, code in ((b"\x03", 0), (b"\x04", 0), (signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)):
            with self.subTest(how), Terminal(harness.program("capstan"), "top", "run", cwd=self.folder) as top:
                top.wait_for(lambda terminal: any("step " in line for line in terminal.picture), "a picture")
                top.press(how) if isinstance(how, bytes) else top.child.send_signal(how)
                self.assertEqual(top.wait(), code)
                top.wait_for(lambda terminal: terminal.text.endswith(FIRST_SCREEN), "the first screen")
                self.assertTrue(top.is_as_before(), "the terminal's settings are not restored")
        self.stop(launch)

    def test_top_gives_the_terminal_back_while_it_is_stopped(self):
        launch = self.run_job()
        top = self.terminal("top", "run")
        top.wait_for(lambda terminal: any("step " in line for line in terminal.picture), "a picture")
        top.press(b"\x1a")
        harness.poll(lambda: harness.stat_of(top.child.pid)[0] == "T", "a program that is stopped")
        self.assertTrue(top.is_as_before())
        top.wait_for(lambda terminal: terminal.text.endswith(FIRST_SCREEN), "the first screen")
        shown = len(top.text)
        top.child.send_signal(signal.SIGCONT)
        top.wait_for(lambda terminal: SECOND_SCREEN in terminal.text[shown:] and "\x1b[H" in terminal.text[shown:], "a picture again")
        top.press(b"q")
        self.assertEqual(top.wait(), 0)
        self.stop(launch)

    def test_top_says_that_the_coordinator_does_not_answer_and_goes_on_when_it_does(self):
        launch = self.run_job("limits.stall=600")
        address = self.endpoints()["metrics"]["coordinator"]
        top = self.terminal("top", address, "--every", "0.1", "--patience", "500")
        top.wait_for(lambda terminal: any("small: running" in line for line in terminal.picture), "a picture")
        coordinator = self.pids()["coordinator"]
        harness.kill(coordinator, signal.SIGSTOP)
        top.wait_for(lambda terminal: any(re.match(r"no answer for .*giving up in ", line) for line in terminal.picture), "its silence")
        harness.kill(coordinator, signal.SIGCONT)
        top.wait_for(lambda terminal: "small: running" in terminal.picture[0] and "no answer" not in terminal.picture[1], "its answer")
        harness.kill(coordinator)  # it is started again, at the same address
        top.wait_for(lambda terminal: any(line.startswith("no answer for") for line in terminal.picture), "its death")
        top.wait_for(lambda terminal: "small: running" in terminal.picture[0] and "no answer" not in terminal.picture[1], "its restart")
        harness.kill(coordinator := self.pids()["coordinator"], signal.SIGSTOP)
        top.wait_for(lambda terminal: any(line.startswith("no answer for") for line in terminal.picture), "its silence")
        top.press(b"q")  # while an answer is waited for
        self.assertEqual(top.wait(), 0)
        harness.kill(coordinator, signal.SIGCONT)
        self.stop(launch)

    def test_top_waits_for_a_coordinator_that_was_started_by_hand_to_be_started_again(self):
        words = [harness.program("capstan-server"), self.job_file(join=harness.patient(600)), "--coordinator", "--run-dir", self.path("run"),
                 "--set", f"cluster.coordinator={harness.free_address()}"]
        with harness.Process(*words, cwd=self.folder) as coordinator:
            coordinator.wait_for_line("servers: capstan-server --join ")
            top = self.terminal("top", "run", "--every", "0.1", "--patience", "500")
            top.wait_for(lambda terminal: terminal.picture and "no answer" not in terminal.picture[1] and "small: " in terminal.picture[0],
                         "a picture")
        top.wait_for(lambda terminal: re.match("no answer for .*; giving up in .*: not running", " ".join(terminal.picture[1:3])), "its end")
        with harness.Process(*words, cwd=self.folder) as coordinator:
            coordinator.wait_for_line("servers: capstan-server --join ")
            top.wait_for(lambda terminal: "no answer" not in terminal.picture[1], "its answer")
            top.press(b"q")
            self.assertEqual(top.wait(), 0)

    def test_top_ends_with_the_job_and_leaves_the_last_picture(self):
        launch = self.run_job()
        top = self.terminal("top", "run", "--every", "0.1")
        top.wait_for(lambda terminal: any("worker-0" in line for line in terminal.picture), "a picture")
        self.stop(launch)
        self.assertEqual(top.wait(), 0)
        last = top.wait_for(lambda terminal: [text for text in terminal.text.split(FIRST_SCREEN)[1:] if "to go on: " in text],
                            "the last picture on the first screen")[0]
        self.assertIn("small: not running", last)
        self.assertTrue(top.is_as_before())

    def test_a_terminal_without_colors_or_movements_is_respected(self):
        self.end_job()
        plain = self.terminal("top", "run", NO_COLOR="1")
        self.assertEqual(plain.wait(), 0)
        plain.wait_for(lambda terminal: "loss by step" in terminal.text.split(FIRST_SCREEN)[-1], "the last picture")
        self.assertNotRegex(plain.text, r"\x1b\[[\d;]*m")
        self.assertNotIn("\x1b", plain.text.split(FIRST_SCREEN)[-1])
        dumb = self.terminal("top", "run", TERM="dumb", LC_ALL="C")
        self.assertEqual(dumb.wait(), 0)
        dumb.wait_for(lambda terminal: "loss by step" in terminal.text, "a picture")
        self.assertNotIn("\x1b", dumb.text)
        self.assertTrue(dumb.text.isascii())
        colored = self.terminal("plot", "run", "run")
        self.assertEqual(colored.wait(), 0)
        colored.wait_for(lambda terminal: "at step 19" in terminal.text, "a legend")
        self.assertIn("\x1b[36m", colored.text)


if __name__ == "__main__":
    harness.main()
