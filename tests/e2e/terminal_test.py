#!/usr/bin/python3
"""The lines that a job prints: its slots and the workers without one at the start, checksums and warnings at the end, and no
byte that could control a terminal."""
import glob
import hashlib
import json
import os
import re
import socket
import urllib.request

import harness

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "mlp-synthetic.toml")


class TerminalTest(harness.JobTest):
    def run_job(self, job, *settings, run="run", code=0):
        arguments = [argument for setting in settings for argument in ("--set", setting)]
        with self.launch(job, *arguments, run=run) as launch:
            self.assertEqual(launch.wait(), code, launch.output)
            return launch.output

    def sum_of(self, run="run"):
        with open(self.path(run, "final.safetensors"), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    # ---- the same bits by default

    def test_the_shipped_example_has_one_sum_for_any_number_of_workers(self):
        sums = set()
        for workers in (1, 2, 4):
            output = self.run_job(EXAMPLE, "job.steps=20", f"cluster.workers={workers}", run=f"by{workers}")
            self.assertIn("20 steps, 4 slots (the default), 1 server", output)
            self.assertIn(f"weights: {self.path(f'by{workers}')}/final.safetensors  sha256 {self.sum_of(f'by{workers}')}\n",
                          output + "\n")
            self.assertNotIn("nothing to compute", output)
            sums.add(self.sum_of(f"by{workers}"))
        self.assertEqual(len(sums), 1, sums)

    def test_a_finished_run_that_is_resumed_has_its_sum_again(self):
        self.run_job(self.job_file())
        with self.launch("--resume") as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
            self.assertIn(f"sha256 {self.sum_of()}", launch.output)

    # ---- workers without work

    def test_workers_beyond_the_slots_are_named_with_what_to_change(self):
        output = self.run_job(self.job_file(), "cluster.workers=4")
        self.assertIn("warning: 1 of 4 workers will have nothing to compute: set job.slots to 4 or cluster.workers to 3; "
                      "another number of slots gives other bits", output)
        self.assertRegex(output, r'warning: "worker-\d" has nothing to compute: other workers have the job\'s 3 slots')

    def test_servers_without_parameters_are_named_with_what_to_change(self):
        self.assertIn("warning: server 1 holds no parameters: the model is 1 block, and there are 2 shards; "
                      "set cluster.servers to 1", self.run_job(self.job_file()))
        self.assertNotIn("no parameters", self.run_job(self.job_file(), "cluster.servers=1", run="one"))

    # ---- how it ends

    def test_a_loss_that_rose_is_said_at_the_end(self):
        output = self.run_job(self.job_file(steps=40), "optimizer.lr=50", "optimizer.weight_decay=0")
        self.assertRegex(output, r"warning: the loss rose from \d\.\d+ to [\d.e+]+: training diverged")
        self.assertLess(output.index("warning: the loss rose"), output.index("sha256 "))

    def test_a_start_that_failed_leaves_no_run_directory(self):
        job = self.job_file(data=f'kind = "csv"\npath = "{self.path("nothing.csv")}"')
        with harness.Process(harness.program("capstan"), "launch", job, cwd=self.folder) as launch:
            self.assertEqual(launch.wait(), 2, launch.output)
            self.assertIn("cannot read the data: No such file or directory; check [data] path", launch.output)
            self.assertNotIn("--data-root", launch.output)
        self.assertFalse(os.path.exists(self.path("runs")))

    def test_a_job_that_failed_before_its_first_step_leaves_no_run_directory_but_one_that_was_asked_for(self):
        job = self.job_file()
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = f"metrics.listen=127.0.0.1:{taken.getsockname()[1]}"
            with harness.Process(harness.program("capstan"), "launch", job, "--set", port, cwd=self.folder) as launch:
                self.assertEqual(launch.wait(), 1, launch.output)
                self.assertIn("failed before its first step; its run directory is removed", launch.output)
            self.assertEqual(os.listdir(self.path("runs")), [])
            self.run_job(job, port, run="kept", code=1)
            self.assertTrue(os.path.isdir(self.path("kept", "logs")), "a run directory that was asked for is gone")

    # ---- bytes that steer a terminal

    def test_control_bytes_of_names_and_files_reach_no_terminal_and_no_log(self):
        name = "\x1b[31mred\x07.csv"
        binary = self.path(name)
        for content in (None, b"\x7fELF\x02\x01\x01\x00\x1b]0;title\x07", b"1,\x1b[2J,0\n"):
            run = f"run{content!r:.3}".replace("\\", "")
            if content is not None:
                with open(binary, "wb") as file:
                    file.write(content)
            path = json.dumps(binary)
            output = self.run_job(self.job_file(data=f'kind = "csv"\npath = {path}'), run=run, code=2)
            texts = [output]
            for log in glob.glob(self.path(run, "logs", "*")):
                with open(log, encoding="utf-8", errors="surrogateescape") as file:
                    texts.append(file.read())
            for text in texts:
                self.assertEqual(re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\udc80-\udcff]", text), [], text[-500:])
            self.assertIn(r"\x1B[31mred\x07.csv", output)
            if content is not None:
                self.assertIn("is not text: its byte", output)

    # ---- by hand

    def test_a_coordinator_by_hand_says_its_port_progress_and_sum(self):
        job = self.job_file(join=harness.patient(60))
        with harness.Process(harness.program("capstan-server"), job, "--coordinator", "--run-dir", self.path("run"), "--set",
                             "cluster.servers=1", f"cluster.coordinator={harness.HOST}:0") as coordinator:
            line = coordinator.wait_for_line("servers: capstan-server --join ")
            address = re.search(r"--join ([\d.]+:\d+) --index 0; workers: capstan-worker --coordinator \1$", line)[1]
            self.assertNotEqual(address.rsplit(":")[1], "0")
            server = [harness.program("capstan-server"), job, "--index", "0", "--set", "cluster.servers=1", "--set",
                      f"cluster.coordinator={address}", "--run-dir", self.path("server")]
            worker = [harness.program("capstan-worker"), "--coordinator", address, "--name"]
            with harness.Process(*server) as one, harness.Process(*worker, "a") as two, harness.Process(*worker, "b") as three:
                self.assertEqual(coordinator.wait(), 0, coordinator.output)
                for process in (one, two, three):
                    self.assertEqual(process.wait(), 0, process.output)
            self.assertRegex(coordinator.output, r'coordinator of "small" \(10 steps, 3 slots\) at ')
            self.assertIn("the job starts from step 0", coordinator.output)
            self.assertRegex(coordinator.output, r"\d\d:\d\d:\d\d\.\d{3} step \d+/10  loss \d\.\d{4}")
            self.assertIn("validation at step 9: ", coordinator.output)
            self.assertIn(f"final.safetensors  sha256 {self.sum_of()}", coordinator.output)
            self.assertRegex(one.output, r"shard 0 holds \d+ parameters, and needs up to \d+ MiB of memory")

    def test_a_coordinator_with_a_scheme_is_refused_with_what_to_write(self):
        with harness.Process(harness.program("capstan-worker"), "--coordinator", "http://127.0.0.1:9100/") as worker:
            self.assertEqual(worker.wait(), 2, worker.output)
            self.assertIn('takes HOST:PORT or ipc:///PATH, not "http://127.0.0.1:9100/"; write 127.0.0.1:9100', worker.output)

    # ---- the page

    def test_a_job_that_waits_says_so_on_its_page_as_on_the_terminal(self):
        with self.launch(self.job_file(steps=harness.ENDLESS)) as launch:
            launch.wait_for_line("running: ")
            launch.wait_for_line("step ")
            address = self.endpoints()["metrics"]["coordinator"]

            def get(path, at=address):
                with urllib.request.urlopen(f"http://{at}{path}", timeout=harness.DEADLINE) as answer:
                    return answer.read().decode()
            # The coordinator prints that it runs before its status page shows it.
            harness.poll(lambda: json.loads(get("/api/v1/status"))["state"] == "running", "a job that runs")
            status = json.loads(get("/api/v1/status"))
            self.assertEqual(status["job"], "small")
            self.assertEqual(sorted(worker["worker"] for worker in status["workers"]), ["worker-0", "worker-1"])
            page = get("/")
            self.assertIn("<h1>capstan: small</h1>", page)
            self.assertRegex(page, r"<th>step</th><td>\d+ of 1000000000</td>")
            server = json.loads(get("/api/v1/status", self.endpoints()["metrics"]["server-0"]))
            self.assertEqual((server["role"], server["job"]), ("server-0", "small"))
            self.assertGreater(server["shards"][0]["parameters"], 0)

            victim = self.pids()["server-0"]
            harness.kill(victim, harness.signal.SIGSTOP)
            said = launch.wait_for_line("for server 0 at ")
            # The page may first have named the workers, which make no progress either.
            harness.poll(lambda: "server 0 at" in json.loads(get("/api/v1/status")).get("waiting", ""), "a page that names it")
            status = json.loads(get("/api/v1/status"))
            self.assertEqual(status["state"], "waiting")
            said_of = re.sub(r"\d+ s", "N s", said.removeprefix("warning: "))
            self.assertEqual(re.sub(r"\d+ s", "N s", status["waiting"]).split(" (silent")[0], said_of.split(" (silent")[0])
            harness.kill(victim, harness.signal.SIGCONT)
            harness.poll(lambda: json.loads(get("/api/v1/status"))["state"] == "running", "a job that runs again")
            harness.kill(launch.pid, harness.signal.SIGINT)
            self.assertEqual(launch.wait(), 130, launch.output)


if __name__ == "__main__":
    harness.main()
