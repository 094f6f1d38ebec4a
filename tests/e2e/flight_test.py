#!/usr/bin/python3
"""capstan flight: the newest events of every process of a job, when it hangs, when it has lost a server, and when it fails."""
import json
import os
import signal
import subprocess

import harness

LEASE = harness.patient(120)  # longer than a test waits, so that nobody is set aside


class FlightTest(harness.JobTest):
    def flight(self, *arguments):
        return subprocess.run([harness.program("capstan"), "flight", *arguments], capture_output=True, text=True,
                              timeout=harness.DEADLINE, check=False)

    def write_all(self):
        """Has the processes write their files. Returns what `capstan flight show` has of them."""
        written = self.flight(self.path("run"), "--wait", str(harness.patient(10)))
        self.assertEqual(written.returncode, 0, written.stderr)
        return self.show(self.path("run"))

    def show(self, *arguments):
        shown = self.flight("show", *arguments, "-o", "json")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        return json.loads(shown.stdout)

    def start(self, *settings):
        sets = [word for setting in (f"limits.lease={LEASE}", *settings) for word in ("--set", setting)]
        return self.launch(self.job_file(steps=harness.ENDLESS), *sets)

    def wait_for_steps(self, count):
        before = len(self.metrics()) if os.path.exists(self.path("run", "metrics.jsonl")) else 0
        harness.poll(lambda: os.path.exists(self.path("run", "metrics.jsonl")) and len(self.metrics()) >= before + count,
                     f"{count} more steps")

    def test_a_worker_that_stands_still_is_named_with_its_last_message_and_with_who_waits_for_it(self):
        with self.start() as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(5)
            pid = self.pids()["worker-1"]
            harness.kill(pid, signal.SIGSTOP)

            def waits():
                asked = self.flight(self.path("run"), "--wait", "1")
                self.assertEqual(asked.returncode, 1, asked.stdout)
                self.assertIn(f"worker-1 (process {pid:d}) has not written: it is stopped", asked.stderr)
                shown = self.show(self.path("run"))
                waits = any(event["process"] == "coordinator" and '"worker-1"' in event["text"] for event in shown["waits"])
                return waits and shown["last_heard"][0]["before_newest_ns"] > 1e9  # not a wait of before it stood still
            harness.poll(waits, "a recorded wait for worker-1")
            shown = self.show(self.path("run"))
            self.assertEqual({process["name"] for process in shown["processes"]},
                             {"coordinator", "server-0", "server-1", "worker-0"})
            heard = shown["last_heard"][0]
            self.assertEqual(heard["peer"], "worker-1")
            self.assertIn(heard["message"], {"Heartbeat", "Push", "Pull", "EndSlot", "CoverageQuery"})
            self.assertGreater(heard["before_newest_ns"], 1e9)
            lines = self.flight("show", self.path("run"), "--last", "30s", "--process", "coordinator").stdout
            self.assertIn("# worker-1 was last heard ", lines)
            self.assertIn('# coordinator waits for "worker-1" (step ', lines)
            harness.kill(pid, signal.SIGCONT)
            self.assertIn("worker-1", {process["name"] for process in self.write_all()["processes"]})
            self.assertFalse(harness.ended(pid))

    def test_after_the_loss_of_a_server_all_processes_tell_the_recovery_in_order(self):
        with self.start() as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(5)
            harness.kill(self.pids()["server-0"])
            launch.wait_for_line("recovered in ")
            self.wait_for_steps(5)
            events = self.write_all()["events"]

            def at(process, kind, message=None, text="", generation=None, peer=None):
                found = [event["time_ns"] for event in events if event["process"] == process and event["kind"] == kind and
                         event.get("message") == message and text in event.get("text", "") and
                         generation in (None, event.get("generation")) and peer in (None, event.get("peer"))]
                self.assertTrue(found, f"{process} has no {kind} {message} {text} {generation}")
                return found[0]
            for server, shard in (("server-0", "shard-0"), ("server-1", "shard-1")):
                for worker in ("worker-0", "worker-1"):
                    order = [at("coordinator", "warning", text="server 0 was lost"),
                             at("coordinator", "sent", "Reset", generation=2, peer=shard),
                             at(server, "received", "Reset", generation=2),
                             at(server, "state", text="serves", generation=2),
                             at(server, "sent", "ResetDone", generation=2),
                             at("coordinator", "received", "ResetDone", generation=2, peer=shard),
                             at("coordinator", "state", text="runs", generation=2),
                             at(worker, "state", text="computes", generation=2)]
                    self.assertEqual(order, sorted(order), f"{server}, {worker}")
            one = self.flight("show", self.path("run"), "--kind", "Reset", "--process", "server-1").stdout
            self.assertIn("received Reset from coordinator: version ", one)
            self.assertNotIn(" sent ", one)

    def test_a_process_that_crashes_leaves_its_events_and_one_that_ends_well_leaves_none(self):
        with self.start() as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(5)
            pid = self.pids()["worker-0"]
            harness.kill(pid, signal.SIGABRT)
            path = self.path("run", "flight", f"worker-0-{pid:d}.flight")
            harness.poll(lambda: os.path.exists(path) and os.path.getsize(path) > 0 and harness.ended(pid), path)
            crashed = self.show(path)["processes"][0]
            self.assertEqual((crashed["name"], crashed["written_because"]), ("worker-0", "it crashed by signal 6"))
            self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
            launch.wait_for_line("joined again")
            launch.child.send_signal(signal.SIGTERM)
            launch.wait()
        self.assertEqual([name for name in os.listdir(self.path("run", "flight")) if f"-{pid:d}." not in name], [])

    def test_a_worker_that_fails_leaves_its_events_with_the_reason(self):
        failed = subprocess.run([harness.program("capstan-worker"), "--coordinator", f"127.0.0.1:{harness.free_port()}", "--name", "alone",
                                 "--join-seconds", "0.5", "--flight", self.path("here")], capture_output=True, text=True,
                                timeout=harness.DEADLINE, check=False)
        self.assertEqual(failed.returncode, 1, failed.stderr)
        shown = self.show(*(self.path("here", name) for name in os.listdir(self.path("here"))))
        self.assertTrue(shown["processes"][0]["written_because"].startswith("it failed: "))
        self.assertIn("Join", {event.get("message") for event in shown["events"]})

    def test_files_that_cannot_be_read_are_named_and_the_others_are_shown(self):
        subprocess.run([harness.program("capstan-worker"), "--coordinator", f"127.0.0.1:{harness.free_port()}", "--name", "alone",
                        "--join-seconds", "0.5", "--flight", self.path("here")], capture_output=True, timeout=harness.DEADLINE, check=False)
        (name,) = os.listdir(self.path("here"))
        with open(self.path("here", name), "rb") as file:
            content = file.read()
        with open(self.path("cut.flight"), "wb") as file:
            file.write(content[:len(content) // 2])
        self.write("other.flight", "no recording at all, and long enough to have a header " * 20)
        shown = self.flight("show", self.path("cut.flight"), self.path("here", name), self.path("other.flight"))
        self.assertEqual(shown.returncode, 1)
        self.assertIn("cut.flight: it is cut or damaged", shown.stderr)
        self.assertIn("other.flight: this is no file of a flight recorder", shown.stderr)
        self.assertIn("# alone, process ", shown.stdout)
        for arguments, words in ((["show", self.path("none")], "there is no such file"), (["show", "--kind", "push"], 'did you mean "Push"?'),
                                 (["show", "--last", "soon"], "this is no time"), ([self.path("none")], "there is no run directory")):
            refused = self.flight(*arguments)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn(words, refused.stderr)


if __name__ == "__main__":
    harness.main()
