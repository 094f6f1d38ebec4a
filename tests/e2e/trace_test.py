"""--trace: the activity of servers and workers over time, in files that trace viewers read."""
import collections
import json
import os
import signal
import subprocess
import threading

import harness

PHASES = {"compute": {"data", "forward", "backward", "wait for weights", "wait for commit", "validation"},
          "pushes": {"push until staged"},
          "shard": {"stage", "apply", "redo", "pull", "commit"}, "disk": {"snapshot write"}}


class TraceTest(harness.JobTest):
    def read(self, process):
        """Checks that a process's trace follows the rules of the format. Returns the spans by thread name."""
        with open(self.path(f"trace.{process}.json"), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
        self.assertEqual([event["args"]["name"] for event in events if event["name"] == "process_name"], [process])
        self.assertEqual(len({event["pid"] for event in events}), 1)
        spans = collections.defaultdict(list)
        for event in events:
            if event["ph"] == "X":
                self.assertGreaterEqual(event["dur"], 0)
                spans[names[event["tid"]]].append(event)
            else:
                self.assertEqual(event["ph"], "M")
        for thread in spans.values():
            self.check_order(thread)
        return spans

    def check_order(self, spans):
        """Checks that spans are in the order of their begins, and that each lies within an earlier span or after it."""
        open_ends, before = [], 0
        for span in spans:
            end = span["ts"] + span["dur"]
            self.assertGreaterEqual(span["ts"], before, span)
            while open_ends and open_ends[-1] <= span["ts"] + 0.001:  # the numbers have three places
                open_ends.pop()
            if open_ends:
                self.assertLessEqual(end, open_ends[-1] + 0.001, span)
            open_ends.append(end)
            before = span["ts"]

    def names(self, spans):
        return {span["name"] for span in spans}

    def test_a_launched_job_leaves_the_phases_of_every_process(self):
        with self.launch(self.job_file(steps=30), "--trace", self.path("trace.json"), "--set", "snapshot.every_steps=10",
                         "--set", "snapshot.every_seconds=0", "--set", "worker.accumulate=2", "--set",
                         "optimizer.clip_norm=0.000001") as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        steps = set()
        for worker in ("worker-0", "worker-1"):
            spans = self.read(worker)
            self.assertEqual(set(spans), {"compute", "pushes"})
            for thread in spans:
                self.assertLessEqual(self.names(spans[thread]), PHASES[thread])
            self.assertGreaterEqual(self.names(spans["compute"]), PHASES["compute"] - {"wait for weights"})
            steps |= {span["args"]["step"] for span in spans["compute"] if span["name"] == "backward"}
        self.assertEqual(steps, set(range(30)))
        shards = []  # a small model's block may lie on either
        for server in (0, 1):
            spans = self.read(f"server-{server}")
            self.assertIn("commit", self.names(spans[f"shard-{server}"]))
            self.assertLessEqual(PHASES["disk"], self.names(spans[f"disk-{server}"]))
            shards += spans[f"shard-{server}"]
        self.assertEqual(self.names(shards), PHASES["shard"])
        for phase in ("apply", "redo"):  # every step is clipped
            self.assertEqual({span["args"]["step"] for span in shards if span["name"] == phase}, set(range(30)), phase)

    def test_a_job_that_is_stopped_leaves_its_traces_too(self):
        with self.launch(self.job_file(steps=1000000), "--trace", self.path("trace.json")) as launch:
            launch.wait_for_line("running: ")
            for _ in range(harness.DEADLINE * 10):
                if os.path.exists(self.path("run", "metrics.jsonl")) and len(self.metrics()) >= 5:
                    break
                threading.Event().wait(0.1)
            harness.kill(launch.pid, signal.SIGTERM)
            self.assertEqual(launch.wait(), 143, launch.output)
        self.assertNotIn("did not end when told to", launch.output)
        for process, thread in (("worker-0", "compute"), ("worker-1", "compute"), ("server-0", "shard-0")):
            self.assertGreater(len(self.read(process)[thread]), 0)

    def test_a_place_where_no_file_can_be_is_named_before_anything_runs(self):
        for words in (["capstan-worker", "--coordinator", "127.0.0.1:1"],
                      ["capstan-server", self.job_file(), "--coordinator"]):
            done = subprocess.run([harness.program(words[0]), *words[1:], "--trace", self.path("no", "t.json")],
                                  capture_output=True, text=True, timeout=harness.DEADLINE, cwd=self.folder)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--trace " + self.path("no", "t.json"), done.stderr)


if __name__ == "__main__":
    harness.main()
