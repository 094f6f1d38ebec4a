"""Everything that can be missing, occupied or broken at the start of a job: it ends in time, with one message that names the
problem, the process, and the next action."""
import contextlib
import gzip
import os
import signal
import socket

import harness

JOIN = harness.patient(8)  # seconds in which processes that run already find the coordinator
STALL = harness.patient(10)
CSV = 'kind = "csv"\npath = "{path}"'


def table(rows=200):
    return [f"{row % 7},{row % 5},{row % 3},{row % 4}" for row in range(rows)]


class DeadlinesTest(harness.JobTest):
    def server(self, job, address, *arguments):
        return harness.Process(harness.program("capstan-server"), job, "--set", f"cluster.coordinator={address}", *arguments,
                               cwd=self.folder)

    def worker(self, address, *arguments):
        return harness.Process(harness.program("capstan-worker"), "--coordinator", address, *arguments)

    def assert_fails(self, process, *words, code=1, timeout=harness.DEADLINE):
        self.assertEqual(process.wait(timeout), code, process.output)
        for word in words:
            self.assertIn(word, process.output)

    def assert_launch_fails(self, data_or_job, *words, code=1, arguments=()):
        with self.launch(data_or_job, *arguments) as launch:
            self.assert_fails(launch, *words, code=code)
            said = [line for line in launch.lines if line.startswith("capstan: ")]
            self.assertLessEqual(len(said), 3, launch.output)  # the message, where the logs are, and how to go on
        if code == 1:
            self.assert_nothing_runs()

    # ---- members

    @contextlib.contextmanager
    def too_few(self, *indexes):
        """Servers with these indexes and a worker wait before a coordinator starts, which waits for all members."""
        job, address = self.job_file(), harness.free_address()
        with contextlib.ExitStack() as stack:
            servers = [stack.enter_context(self.server(job, address, "--index", index)) for index in indexes]
            worker = stack.enter_context(self.worker(address))
            for process in (*servers, worker):
                process.wait_for_line("metrics at http://")
            yield stack.enter_context(self.server(job, address, "--coordinator", "--run-dir", self.path("run"), "--set",
                                                  f"limits.join={JOIN}")), servers, worker

    def test_a_missing_server_is_named(self):
        with self.too_few("0") as (coordinator, servers, worker):
            self.assert_fails(coordinator, f"did not start within {JOIN} s", "server 1 (never seen)")
            self.assert_fails(worker, "the job failed", "server 1 (never seen)")
            self.assertIn(servers[0].wait(), (0, 1))

    def test_a_missing_worker_is_counted(self):
        with self.too_few("0", "1") as (coordinator, servers, worker):
            self.assert_fails(coordinator, f"did not start within {JOIN} s", "1 of 2 workers (not joined)")
            self.assert_fails(worker, "the job failed")
            for server in servers:
                self.assertIn(server.wait(), (0, 1))

    def test_a_server_says_that_there_is_no_coordinator(self):
        address = harness.free_address()
        with self.server(self.job_file(join=1), address, "--index", "0") as server:
            self.assert_fails(server, f"the coordinator at {address} did not answer within 1 s", "start it")

    def test_a_worker_that_waits_for_a_coordinator_ends_when_it_is_told_to(self):
        with self.worker(harness.free_address(), "--join-seconds", str(10 * harness.DEADLINE)) as worker:
            worker.wait_for_line("metrics at http://")
            harness.kill(worker.pid, signal.SIGTERM)
            self.assertEqual(worker.wait(), 128 + signal.SIGTERM, worker.output)

    def test_a_worker_says_that_there_is_no_coordinator(self):
        address = harness.free_address()
        with self.worker(address, "--join-seconds", "1") as worker:
            self.assert_fails(worker, address)

    def test_the_second_server_with_one_index_is_refused(self):
        job, address = self.job_file(join=harness.patient(60)), harness.free_address()
        with self.server(job, address, "--coordinator", "--run-dir", self.path("run")), \
                self.server(job, address, "--index", "0") as first:
            first.wait_for_line("server-0 at")
            with self.server(job, address, "--index", "0", "--run-dir", self.path("second")) as second:
                # The coordinator refuses the server that it hears second. That may be either of them.
                loser = self.first_to_end(first, second)
                self.assert_fails(loser, "server 0 is already running at", "another --index")

    def first_to_end(self, *processes):
        return harness.poll(lambda: next((process for process in processes if process.child.poll() is not None), None),
                            "an end of either")

    def test_another_job_file_is_refused(self):
        job, address = self.job_file(join=harness.patient(60)), harness.free_address()
        with self.server(job, address, "--coordinator", "--run-dir", self.path("run")), \
                self.server(job, address, "--index", "0", "--set", "job.seed=9") as server:
            self.assert_fails(server, "another job file", "start all of them with the same file")

    def test_a_worker_with_another_catalog_or_other_data_is_refused(self):
        job, address = self.job_file(data=CSV.format(path="table.csv"), join=harness.patient(60)), harness.free_address()
        for folder, rows in (("own", table()), ("wider", [row + ",1" for row in table()]), ("other", table()[::-1])):
            os.mkdir(self.path(folder))
            self.write(f"{folder}/table.csv", "\n".join(rows))
        with self.server(job, address, "--coordinator", "--run-dir", self.path("run")) as coordinator, \
                self.worker(address, "--name", "first", "--data-root", self.path("own")):
            coordinator.wait_for_line('"first" joined')
            with self.worker(address, "--name", "second", "--data-root", self.path("wider")) as worker:
                self.assert_fails(worker, 'worker "second"', "f32[16, 4]", "the job has layers.0.weight f32[16, 3]", "start it with the same")
            with self.worker(address, "--name", "third", "--data-root", self.path("other")) as worker:
                self.assert_fails(worker, 'worker "third"', "other data", "check data.path")

    def test_an_index_beyond_the_job_is_wrong_use(self):
        with self.server(self.job_file(), "127.0.0.1:1", "--index", "2") as server:
            self.assert_fails(server, "--index 2", "2 servers", code=2)
        with self.server(self.job_file(), "127.0.0.1:1", "--index", "2", "--set", "cluster.servers=1") as server:
            self.assert_fails(server, "1 server (", code=2)

    def test_an_occupied_port_is_named(self):
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            address = "127.0.0.1:%d" % holder.getsockname()[1]
            self.assert_launch_fails(self.job_file(), address, "already in use", "choose another port",
                                     arguments=("--set", f"cluster.coordinator={address}"))

    # ---- processes that stand still

    def test_a_coordinator_that_stands_still_is_named_and_ends_the_job(self):
        with self.launch(self.job_file(steps=1000000), "--set", f"limits.stall={STALL}") as launch:
            launch.wait_for_line("running: ")
            pid = self.pids()["coordinator"]
            harness.kill(pid, signal.SIGSTOP)
            said = launch.wait_for_line("for the coordinator (process ")
            self.assertRegex(said, rf"^warning: waiting \d+ s for the coordinator \(process {pid}\): it does not answer$")
            self.assert_fails(launch, "the job failed")
            # All wait for the coordinator for the same time, so the test cannot know which process ends the job first.
            self.assertRegex(launch.output, f"(waited {STALL} s for the coordinator|the coordinator at .* has been silent for {STALL} s|"
                                            f"no answer from the coordinator for {STALL} s)")
            again = [line for line in launch.lines if line.startswith("warning: waiting ") and str(pid) in line]
            self.assertGreater(len(again), 1, launch.output)  # every limits.report seconds
        self.assert_nothing_runs()

    def test_a_coordinator_that_stood_still_for_a_while_goes_on(self):
        with self.launch(self.job_file(steps=1000000)) as launch:
            launch.wait_for_line("running: ")
            pid = self.pids()["coordinator"]
            harness.kill(pid, signal.SIGSTOP)
            launch.wait_for_line("for the coordinator (process ")
            harness.kill(pid, signal.SIGCONT)
            launch.wait_for_line("the coordinator answers again")
            harness.kill(launch.pid, signal.SIGTERM)
            self.assertEqual(launch.wait(), 143, launch.output)

    def test_a_server_that_stands_still_is_named_killed_and_started_again(self):
        with self.launch(self.job_file(steps=1000000), "--set", f"limits.stall={2 * STALL}") as launch:
            launch.wait_for_line("running: ")
            launch.wait_for_line("  loss ")
            since, pid = len(launch.lines), self.pids()["server-0"]
            harness.kill(pid, signal.SIGSTOP)
            said = launch.wait_for_line("warning: server-0 (process ")
            self.assertRegex(said, rf"^warning: server-0 \(process {pid}\) has not run for \d+ s$")
            self.assertIn(f"(process {pid}) has not run for", launch.wait_for_line("; killing it"))
            launch.wait_for_line("server-0 was killed by signal 9 (Killed); starting it again")
            launch.wait_for_line("running: ", since=since)
            harness.kill(launch.pid, signal.SIGTERM)
            self.assertEqual(launch.wait(), 143, launch.output)
        self.assert_nothing_runs()

    # ---- data

    def test_a_data_path_that_is_not_there_is_named(self):
        path = self.path("nothing.csv")
        self.assert_launch_fails(self.job_file(data=CSV.format(path=path)), path, code=2)

    def test_a_worker_by_hand_names_the_folder_that_it_looked_in(self):
        job, address = self.job_file(data=CSV.format(path="nothing.csv")), harness.free_address()
        os.mkdir(self.path("data"))
        with self.server(job, address, "--coordinator", "--run-dir", self.path("run")), \
                self.worker(address, "--data-root", self.path("data")) as worker:
            self.assert_fails(worker, self.path("data", "nothing.csv"), "check [data] path in the job file",
                              f"below --data-root, which is {self.path('data')} here")

    def test_a_truncated_csv_is_named_with_its_line(self):
        rows = table()
        rows[150] = "1,2"
        path = self.write("table.csv", "\n".join(rows))
        self.assert_launch_fails(self.job_file(data=CSV.format(path=path)), path, "151", code=2)

    def test_a_truncated_gzip_is_named(self):
        path = self.path("table.csv.gz")
        whole = gzip.compress("\n".join(table()).encode())
        with open(path, "wb") as file:
            file.write(whole[:len(whole) // 2])
        self.assert_launch_fails(self.job_file(data=CSV.format(path=path)), path, code=2)

    def test_a_model_that_no_memory_holds_is_refused_with_its_account(self):
        text = harness.SMALL_JOB.format(steps=10, join=harness.patient(60), data='kind = "synthetic"\nsamples = 8192\nvocabulary = 64')
        gpt = 'kind = "gpt"\nlayers = 1000\nheads = 1\nwidth = 64\ncontext = 4096'
        job = self.write("job.toml", text.replace('kind = "mlp"\nhidden = [16]', gpt))
        self.assert_launch_fails(job, "the model needs", "activations of a micro-batch of 4096 samples",
                                 "free; lower [job] global_batch", "set [worker] recompute = true", code=2,
                                 arguments=["--set", "job.global_batch=4096", "--set", "job.slots=1"])

    def test_nan_in_the_data_is_found(self):
        rows = table()
        rows[20] = "nan,1,2,0"
        path = self.write("table.csv", "\n".join(rows))
        self.assert_launch_fails(self.job_file(data=CSV.format(path=path)), "nan", code=2)

    def test_numbers_that_overflow_stop_the_job_and_name_the_slots(self):
        rows = [f"3e38,3e38,3e38,{row % 4}" for row in range(200)]
        path = self.write("table.csv", "\n".join(rows))
        self.assert_launch_fails(self.job_file(data=CSV.format(path=path)), "not finite", "step 0")

    # ---- the job file

    def test_an_unknown_key_gets_a_suggestion(self):
        job = self.write("typo.toml", harness.SMALL_JOB.format(steps=3, data=harness.SYNTHETIC, join=3).replace(
            "global_batch", "global_bacth"))
        self.assert_launch_fails(job, "global_bacth", "global_batch", "typo.toml:4", code=2)

    def test_an_unknown_model_gets_a_suggestion(self):
        self.assert_launch_fails(self.job_file(), "mlpp", "mlp", code=2, arguments=("--set", "model.kind=mlpp"))

    def test_a_missing_job_file_is_wrong_use(self):
        self.assert_launch_fails(self.path("nothing.toml"), "nothing.toml", code=2)


if __name__ == "__main__":
    harness.main()
