"""A job whose processes are started one by one: in any order, again after kills, and again when the job is done."""
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import urllib.request

import harness
import recovery


def get_json(address, page):
    with urllib.request.urlopen(f"http://{address}{page}", timeout=harness.DEADLINE) as answer:
        return answer.headers.get_content_type(), json.loads(answer.read())


class ByHandTest(harness.JobTest):
    def server(self, *arguments):
        return harness.Process(harness.program("capstan-server"), *arguments, cwd=self.folder)

    def worker(self, *arguments):
        return harness.Process(harness.program("capstan-worker"), *arguments, cwd=self.folder)

    def test_any_start_order_will_do(self):
        job = self.job_file(join=harness.patient(60))
        address = harness.free_address()
        file = [job, "--set", f"cluster.coordinator={address}"]
        with self.worker("--coordinator", address, "--name", "b") as second, \
                self.server(*file, "--index", "1", "--run-dir", self.path("run")) as late_server, \
                self.worker("--coordinator", address) as first, self.server(*file, "--index", "0") as early_server:
            for process in (second, late_server, first, early_server):
                process.wait_for_line("metrics at http://")
            with self.server(*file, "--coordinator", "--run-dir", self.path("run")) as coordinator:
                self.assertEqual(coordinator.wait(), 0, coordinator.output)
            for process in (second, late_server, first, early_server):
                self.assertEqual(process.wait(), 0, process.output)
        self.assertEqual(len(self.metrics()), 10)
        self.weights()
        self.assertEqual(self.endpoints()["coordinator"], address)
        self.assertEqual(len(self.endpoints()["shards"]), 2)
        self.assertEqual(set(self.pids()), {"coordinator", "server-1"})

    def test_a_worker_may_come_to_a_running_job(self):
        job = self.job_file(steps=1000000, join=harness.patient(60))
        with self.launch(job) as launch:
            launch.wait_for_line("running: ")
            with self.worker("--coordinator", self.endpoints()["coordinator"], "--name", "late") as late:
                launch.wait_for_line('"late" joined (3 workers, 1 more than cluster.workers = 2)')
                harness.kill(late.pid, harness.signal.SIGTERM)
                late.wait()
                launch.wait_for_line('"late" left')

    def test_print_config_fills_in_the_defaults(self):
        with self.server(self.job_file(), "--print-config") as server:
            self.assertEqual(server.wait(), 0)
            self.assertIn("eps = ", server.output)
            self.assertFalse(os.path.exists(self.path("run")))

    # ---- without a job file

    @contextlib.contextmanager
    def whole_job(self, *coordinator_arguments, steps=1000000):
        """Starts a coordinator that chooses its address, and the other processes at the address that it prints."""
        with contextlib.ExitStack() as stack:
            head = stack.enter_context(self.server(self.job_file(steps=steps), "--coordinator", *coordinator_arguments))
            said = head.wait_for_line("servers: capstan-server --join ")
            address = re.search(r"--join (\S+) --index 0 \(to 1\); workers: capstan-worker --coordinator (\S+)$", said)
            self.assertIsNotNone(address, said)
            self.assertEqual(address[1], address[2])
            others = [stack.enter_context(self.server("--join", address[1], "--index", str(index))) for index in range(2)]
            others += [stack.enter_context(self.worker("--coordinator", address[1], "--name", name)) for name in ("a", "b")]
            yield head, others

    def test_servers_have_the_job_file_from_the_coordinator(self):
        with self.whole_job(steps=10) as (head, others):
            self.assertEqual(head.wait(), 0, head.output)
            for process in others:
                self.assertEqual(process.wait(), 0, process.output)
        for folder in ("coordinator", "server-0", "server-1"):
            self.assertTrue(os.path.isdir(self.path("runs", f"small-{folder}")), folder)
        self.weights(os.path.join("runs", "small-coordinator"))

    def test_addresses_are_those_of_the_processes_that_are_there(self):
        run = os.path.join("runs", "small-coordinator")
        with self.whole_job() as (head, others):
            head.wait_for_line("running: ")
            processes = {process["name"]: process for process in self.endpoints(run)["processes"]}
            self.assertEqual({name: process["role"] for name, process in processes.items()},
                             {"coordinator": "coordinator", "server-0": "server", "server-1": "server", "a": "worker", "b": "worker"})
            for process in processes.values():
                with urllib.request.urlopen(process["metrics"], timeout=harness.DEADLINE) as answer:
                    self.assertEqual(answer.headers.get_content_type(), "text/plain")
            coordinator = self.endpoints(run)["metrics"]["coordinator"]
            kind, groups = get_json(coordinator, "/http_sd")
            self.assertEqual(kind, "application/json")
            self.assertEqual({group["labels"]["name"]: f"http://{group['targets'][0]}/metrics" for group in groups},
                             {name: process["metrics"] for name, process in processes.items()})
            self.assertEqual({group["labels"]["job"] for group in groups}, {"small"})
            harness.kill(others[-1].pid, signal.SIGTERM)
            harness.poll(lambda: "b" not in self.endpoints(run)["metrics"], "an endpoints.json without b")
            harness.poll(lambda: len(get_json(coordinator, "/http_sd")[1]) == 4, "a discovery without b")
            harness.kill(head.pid, signal.SIGINT)
            self.assertEqual(head.wait(), 130, head.output)
        self.assertEqual(len(self.endpoints(run)["processes"]), 4)  # as it was last

    def test_a_server_is_told_what_to_write(self):
        for arguments, words in ((["--join", "http://10.0.0.5:29600", "--index", "0"], ["HOST:PORT", "write 10.0.0.5:29600"]),
                                 (["--join", "10.0.0.5:29600"], ["say which by --index"]),
                                 (["--index", "0"], ["JOB.toml", "--join ADDRESS"]),
                                 ([self.job_file(), "--index", "0"], ["cannot know where that is", "--join ADDRESS"])):
            with self.subTest(arguments), self.server(*arguments) as server:
                self.assertEqual(server.wait(), 2, server.output)
                for word in words:
                    self.assertIn(word, server.output)
        with self.worker("--coordinator", "http://10.0.0.5:29600") as worker:
            self.assertEqual(worker.wait(), 2, worker.output)
            self.assertIn("write 10.0.0.5:29600, without", worker.output)

    # ---- waits

    def test_a_server_says_that_it_waits_for_the_coordinator(self):
        address, limit = harness.free_address(), harness.patient(60)
        wait = f"s for the coordinator at {address}; start it with: capstan-server JOB.toml --coordinator; giving up after {limit} s"
        file = [self.job_file(join=limit), "--set", f"cluster.coordinator={address}"]
        with self.server(*file, "--index", "0") as with_file, \
                self.server("--join", address, "--index", "1", "--join-seconds", str(limit)) as without:
            with_file.wait_for_line(f"waiting 2 {wait}")  # limits.report is 1
            without.wait_for_line(f"waiting 5 {wait}")
            harness.kill(without.pid, signal.SIGTERM)
            self.assertEqual(without.wait(), 128 + signal.SIGTERM, without.output)
        with self.server("--join", address, "--index", "1", "--join-seconds", "1") as without:
            self.assertEqual(without.wait(), 1, without.output)
            self.assertIn(f"the coordinator at {address} did not answer within 1 s; start it", without.output)

    def test_a_server_says_that_the_coordinator_fell_silent_and_that_it_answers(self):
        with self.whole_job() as (head, others):
            head.wait_for_line("running: ")
            harness.kill(head.pid, signal.SIGSTOP)
            others[0].wait_for_line("which has answered before; if it ended, start it again")
            harness.kill(head.pid, signal.SIGCONT)
            others[0].wait_for_line(" answers")

    def test_a_coordinator_names_those_that_it_waits_for(self):
        with self.server(self.job_file(), "--coordinator") as head:
            said = head.wait_for_line("waiting 2 s for ")
            for who in ("server 0 (never seen)", "server 1 (never seen)", "2 of 2 workers (not joined)", "giving up after"):
                self.assertIn(who, said)

    def test_a_server_that_is_not_where_it_says_is_named(self):
        nowhere = harness.free_address()
        with self.server(self.job_file(), "--coordinator", "--set", f"cluster.coordinator={nowhere}") as head:
            host = "127.255.255.254"  # this machine's own, where nobody listens
            with self.server("--join", nowhere, "--index", "0", "--set", f"cluster.advertise={host}"):
                said = head.wait_for_line("server 0 says that it is reached at ")
                self.assertIn(host, said)
                self.assertIn("Connection refused", said)

    # ---- again

    def test_a_second_job_of_the_same_name_takes_nothing_of_the_first(self):
        with self.whole_job("--set", "snapshot.every_steps=5", steps=10) as (head, others):
            for process in (head, *others):
                self.assertEqual(process.wait(), 0, process.output)
        first = self.weights(os.path.join("runs", "small-coordinator"))
        kept = glob.glob(self.path("runs", "small-server-0", "snapshots", "shard-0", "*.sst"))
        self.assertTrue(kept)
        with self.server(self.job_file(), "--coordinator") as head:
            self.assertEqual(head.wait(), 1, head.output)
            self.assertIn("this run is finished", head.output)
            self.assertIn("give a new --run-dir here and to the servers", head.output)
            self.assertIn("mv runs/small-coordinator runs/small-coordinator-old", head.output)
        with self.server(self.job_file(), "--coordinator", "--set", "job.seed=9") as head:
            self.assertEqual(head.wait(), 1, head.output)
            self.assertIn("holds a run with other settings, [job]: it was begun with seed = 1, now seed = 9", head.output)
        self.assertEqual(self.weights(os.path.join("runs", "small-coordinator")), first)
        shutil.move(self.path("runs", "small-coordinator"), self.path("runs", "small-coordinator-old"))
        with self.whole_job(steps=10) as (head, others):
            for server in others[:2]:
                self.assertEqual(server.wait(), 1, server.output)
                self.assertIn("directory belongs to another job", server.output)
                self.assertIn("(run directory here: runs/small-server-", server.output)
        self.assertLessEqual(set(kept), set(glob.glob(self.path("runs", "small-server-0", "snapshots", "shard-0", "*.sst"))))


class SameCommandTest(recovery.RecoveryTest):
    STEPS = 600

    def test_a_killed_process_goes_on_by_the_command_that_started_it(self):
        run = self.path("runs", "recovery-coordinator")
        with contextlib.ExitStack() as stack:
            start = lambda *words: stack.enter_context(harness.Process(harness.program(words[0]), *words[1:], cwd=self.folder))
            commands = {"coordinator": ["capstan-server", self.job(), "--coordinator", "--set", "cluster.workers=2"]}
            running = {"coordinator": start(*commands["coordinator"])}
            said = running["coordinator"].wait_for_line("servers: capstan-server --join ")
            address = re.search(r"--join (\S+)", said)[1]
            for index in range(2):
                commands[f"server-{index}"] = ["capstan-server", "--join", address, "--index", str(index)]
            for name in ("a", "b"):
                commands[name] = ["capstan-worker", "--coordinator", address, "--name", name]
            running |= {name: start(*command) for name, command in commands.items() if name != "coordinator"}
            running["coordinator"].wait_for_line("running: ")
            for victim in ("server-1", "coordinator", "a", "coordinator", "server-0"):
                begun = recovery.count_records(run)
                recovery.poll(lambda: recovery.count_records(run) >= begun + 12, f"12 steps before the end of {victim}")
                harness.kill(running[victim].pid)
                running[victim].wait()
                self.assertTrue(all(process.child.poll() is None for name, process in running.items() if name != victim),
                                "the job had ended before")
                running[victim] = start(*commands[victim])
            for name, process in running.items():
                self.assertEqual(process.wait(), 0, f"{name}:\n{process.output}")
            self.assertIn("going on with the run in runs/recovery-coordinator", running["coordinator"].output)
        self.assertEqual(recovery.digest_of(run), self.golden(self.STEPS))
        self.assert_whole_history(os.path.join("runs", "recovery-coordinator"), self.STEPS)


if __name__ == "__main__":
    harness.main()
