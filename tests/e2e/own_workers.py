"""Shared by the tests of the user's own workers: their scripts, jobs that wait for them, and workers killed during a run."""
import contextlib
import functools
import hashlib
import os
import signal
import sys

import forked_script
import gate
import harness
import installed_prefix
import recovery

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.abspath(os.path.join(HERE, "..", "..", "examples", "embed"))
KILL_AFTER = 20  # steps
ENDLESS = 10**6  # steps of a job that its test ends


def environment(**settings):
    """Returns an environment in which a script finds the installed package."""
    packages = os.path.join(installed_prefix.prefix(harness.BIN), "lib", "python3", "dist-packages")
    return {**os.environ, "PYTHONPATH": packages, "OMP_NUM_THREADS": "1", **settings}


@functools.cache
def fork_server(modules):
    return forked_script.ForkServer(modules, environment())


class OwnWorkersTest(harness.JobTest):
    STEPS = 150
    EXAMPLE = ""  # folder of the job file
    IMPORTED = ("numpy", "capstan")  # modules of its scripts, already imported by the server

    def setUp(self):
        super().setUp()
        self.gates = []

    def python(self, *arguments, **settings):
        """Starts a Python script, or -c, that waits at the present gates. `settings`: variables of its environment."""
        if self.gates:
            settings[gate.VARIABLE] = " ".join(one.text for one in self.gates)
            arguments = (os.path.join(HERE, "paced_script.py"), *arguments)
        return forked_script.ForkedScript(fork_server(self.IMPORTED), *arguments, cwd=self.folder,
                                          environment=environment(**settings))

    def new_python(self, *arguments, **settings):
        """Starts a script as a user would: in a Python that has imported nothing yet."""
        words = [f"{name}={value}" for name, value in environment(**settings).items()]
        return harness.Process("/usr/bin/env", *words, sys.executable, "-B", *arguments, cwd=self.folder)

    @contextlib.contextmanager
    def gate(self, step):
        """Scripts started within this block do not begin this step or a later one before the gate is open."""
        one = gate.Gate(self.path(f"gate-{len(self.gates)}"), step)
        self.gates.append(one)
        try:
            yield one
        finally:
            self.gates.remove(one)
            one.close()

    def gate_in_mid_run(self):
        return self.gate((KILL_AFTER + self.STEPS) // 2)

    @classmethod
    def once(cls, key, digest):
        """Calls `digest` for the first test of this class that asks for `key`, and returns the result to all of them."""
        known = cls.__dict__.get("known_digests")
        if known is None:
            known = cls.known_digests = {}
        if key not in known:
            known[key] = digest()
        return known[key]

    def job(self, run, workers, *more):
        """Launches a job that waits for `workers` workers. `more`: further settings."""
        settings = [f"cluster.workers={workers}", "cluster.servers=2", f"job.steps={self.STEPS}", f"limits.lease={harness.patient(2)}",
                    f"limits.join={harness.DEADLINE}", *more]
        return self.launch(os.path.join(EXAMPLES, self.EXAMPLE, "job.toml"),
                           *(word for setting in settings for word in ("--set", setting)), run=run)

    @staticmethod
    def address(launch):
        return harness.own_address(launch)

    def digest_at_end(self, launch, run, workers):
        for worker in workers:
            self.assertEqual(worker.wait(), 0, worker.output)
        self.assertEqual(launch.wait(), 0, launch.output)
        with open(self.path(run, "final.safetensors"), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def digest_of_one(self, start, run="one"):
        """Runs a job with one worker, which `start(address, name)` starts. Returns the digest of its weights."""
        with self.job(run, 1) as launch, start(self.address(launch), "a") as worker:
            return self.digest_at_end(launch, run, [worker])

    def digest_of_two(self, start):
        with self.job("two", 2) as launch:
            with start(self.address(launch), "a") as a, start(self.address(launch), "b") as b:
                return self.digest_at_end(launch, "two", [a, b])

    def wait_for_steps(self, run, count):
        recovery.poll(lambda: recovery.count_records(self.path(run)) >= count, f"{count} steps")

    def kill_in_mid_run(self, pid, run):
        """Kills a process after some steps. The job must not end meanwhile, so a gate before its last steps must be shut."""
        self.wait_for_steps(run, KILL_AFTER)
        os.kill(pid, signal.SIGKILL)
        self.assertLess(recovery.count_records(self.path(run)), self.STEPS, "an invalid run: it was over")

    def digest_with_a_killed_worker(self, start):
        """Runs a job with two workers, of which one is killed; a third one joins before the job may end. Returns the digest."""
        with self.gate_in_mid_run() as held, self.job("killed", 2) as launch:
            address = self.address(launch)
            with start(address, "a") as a, start(address, "b") as b:
                self.kill_in_mid_run(b.pid, "killed")
                self.assertEqual(b.wait(), -signal.SIGKILL)
                with start(address, "c") as c:
                    launch.wait_for_line('"c" joined')
                    held.open()
                    return self.digest_at_end(launch, "killed", [a, c])

    def digest_with_a_killed_server(self, start):
        with self.gate_in_mid_run() as held, self.job("lost", 1) as launch, start(self.address(launch), "a") as worker:
            recovery.poll(lambda: "server-0" in recovery.names_in(self.path("lost")), "a server")
            self.kill_in_mid_run(recovery.pid_of(self.path("lost"), "server-0"), "lost")
            held.open()
            digest = self.digest_at_end(launch, "lost", [worker])
        self.assertGreater(max(record["generation"] for record in self.metrics("lost")), 1, "the job never went back")
        return digest


EXTERNAL_JOB = """\
[job]
name = "external"
steps = {steps}
global_batch = {batch}
slots = {slots}

[model]
kind = "client"

[optimizer]
kind = "external"

[cluster]
servers = 2

[snapshot]
every_steps = 10
"""


class ExternalJobsTest(OwnWorkersTest):
    """Tests of jobs whose optimizer stays in the program."""
    BATCH, SLOTS = 0, 0

    def job(self, run, workers, *more):
        settings = [f"cluster.workers={workers}", f"limits.lease={harness.patient(2)}",
                    f"limits.join={harness.DEADLINE}", *more]
        text = EXTERNAL_JOB.format(steps=self.STEPS, batch=self.BATCH, slots=self.SLOTS)
        return self.launch(self.write(f"{run}.toml", text), *(word for setting in settings for word in ("--set", setting)),
                           run=run)
