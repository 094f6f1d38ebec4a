"""What the tests of workers that are not ours share: capstan installed into a prefix, and jobs that wait for them."""
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile

import harness
import recovery

EXAMPLES = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "examples", "embed"))
KILL_AFTER = 20  # steps


class OwnWorkersTest(harness.JobTest):
    STEPS = 150
    EXAMPLE = ""  # folder of the job file

    @classmethod
    def setUpClass(cls):
        cls.prefix = tempfile.mkdtemp(prefix="capstan-prefix-")
        cls.addClassCleanup(shutil.rmtree, cls.prefix, ignore_errors=True)
        build = os.path.dirname(harness.BIN)
        subprocess.run(["cmake", "--install", build, "--prefix", cls.prefix], check=True, stdout=subprocess.DEVNULL)

    def job(self, run, workers, *more):
        """The launch of a job that waits for `workers` of them, with more settings."""
        settings = [f"cluster.workers={workers}", "cluster.servers=2", f"job.steps={self.STEPS}", "limits.lease=2",
                    "limits.join=20", *more]
        return self.launch(os.path.join(EXAMPLES, self.EXAMPLE, "job.toml"),
                           *(word for setting in settings for word in ("--set", setting)), run=run)

    @staticmethod
    def address(launch):
        return launch.wait_for_line("the workers are your own").rsplit(" ", 1)[1]

    def digest_at_end(self, launch, run, workers):
        for worker in workers:
            self.assertEqual(worker.wait(), 0, worker.output)
        self.assertEqual(launch.wait(), 0, launch.output)
        with open(self.path(run, "final.safetensors"), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def digest_of_one(self, start):
        """`start(address, name)` starts a worker."""
        with self.job("one", 1) as launch, start(self.address(launch), "a") as worker:
            return self.digest_at_end(launch, "one", [worker])

    def digest_of_two(self, start):
        with self.job("two", 2) as launch:
            with start(self.address(launch), "a") as a, start(self.address(launch), "b") as b:
                return self.digest_at_end(launch, "two", [a, b])

    def kill_in_mid_run(self, pid, run):
        recovery.poll(lambda: recovery.count_records(self.path(run)) >= KILL_AFTER, "the first steps")
        os.kill(pid, signal.SIGKILL)
        self.assertLess(recovery.count_records(self.path(run)), self.STEPS, "an invalid run: it was over")

    def digest_with_a_killed_worker(self, start):
        """One of two is killed, and another one started."""
        with self.job("killed", 2) as launch:
            address = self.address(launch)
            with start(address, "a") as a, start(address, "b") as b:
                self.kill_in_mid_run(b.pid, "killed")
                self.assertEqual(b.wait(), -signal.SIGKILL)
                with start(address, "c") as c:
                    return self.digest_at_end(launch, "killed", [a, c])

    def digest_with_a_killed_server(self, start):
        with self.job("lost", 1) as launch, start(self.address(launch), "a") as worker:
            recovery.poll(lambda: "server-0" in recovery.names_in(self.path("lost")), "a server")
            self.kill_in_mid_run(recovery.pid_of(self.path("lost"), "server-0"), "lost")
            digest = self.digest_at_end(launch, "lost", [worker])
        self.assertGreater(max(record["generation"] for record in self.metrics("lost")), 1, "the job never went back")
        return digest
