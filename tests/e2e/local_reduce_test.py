#!/usr/bin/python3
"""allreduce.local_reduce: workers of one machine add up their gradients, and one of them pushes for all.

Nothing depends on it but the bytes that travel: every run ends with the weights of the same job without it.
"""
import contextlib
import os
import re
import shutil
import signal
import urllib.request

import harness
import recovery

RECEIVED = 'capstan_network_receive_bytes_total{plane="data"'
LOCAL = ["--set", "allreduce.local_reduce=gloo"]


def workers(count):
    return ["--set", f"cluster.workers={count}"]


class LocalReduceTest(recovery.RecoveryTest):
    STEPS, EVERY, LEASE = 300, 25, 2

    def begin(self, *arguments, run="run"):
        return self.launch(self.job(), *LOCAL, *arguments, run=run)

    def counted(self, address, name):
        """The sum of what a process has counted under this name; 0 where nobody answers."""
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=harness.DEADLINE) as answer:
                text = answer.read().decode()
            return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name))
        return 0

    def reduced(self, address):
        return self.counted(address, "capstan_worker_reduced_bytes_total")

    def wait_until_reducing(self, launch, name, run="run"):
        begun = self.reduced(self.endpoints(run)["metrics"][name])
        recovery.poll(lambda: launch.closed or self.reduced(self.endpoints(run)["metrics"][name]) not in (0, begun),
                      f"{name} adding up gradients")
        self.assertFalse(launch.closed, launch.output)

    # ---- undisturbed

    def test_the_bits_are_those_of_every_worker_pushing_by_itself(self):
        for count in (1, 2, 3, 4):
            run = f"run{count}"
            with self.subTest(workers=count), self.begin(*workers(count), run=run) as launch:
                launch.wait_for_line("running: ")
                if count > 1:
                    self.wait_until_reducing(launch, "worker-0", run)
                self.assert_same_bits(launch, run)

    def test_four_slots_and_numbers_of_16_bits(self):
        for precision in ("fp32", "bf16", "fp16"):
            settings = ["--set", "job.slots=4", "--set", "job.steps=60", "--set", f"worker.precision={precision}",
                        "--set", "worker.accumulate=2"]
            runs = {f"{precision}-direct": [*workers(1)], f"{precision}-2": [*LOCAL, *workers(2)],
                    f"{precision}-4": [*LOCAL, *workers(4)]}
            for run, more in runs.items():
                with self.launch(self.job(), *settings, *more, run=run) as launch:
                    self.assertEqual(launch.wait(), 0, launch.output)
            digests = {recovery.digest_of(self.path(run)) for run in runs}
            self.assertEqual(len(digests), 1, f"{precision}: {digests}")

    def bytes_per_step(self, run, *arguments):
        """What the only server receives in a step, once all workers take part."""
        with self.launch(self.job(), *workers(4), "--set", "job.slots=4", "--set", "cluster.servers=1",
                         "--set", "job.steps=5000", *arguments, run=run) as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 30, run)
            if arguments:  # before they have found together each pushes by itself
                self.wait_until_reducing(launch, "worker-3", run)
            seen = []
            for _ in range(2):
                count = recovery.count_records(self.path(run))
                seen.append((count, self.counted(self.endpoints(run)["metrics"]["server-0"], RECEIVED)))
                self.wait_for_steps(launch, count + 200, run)
            launch.child.send_signal(signal.SIGINT)
            launch.wait()
        return (seen[1][1] - seen[0][1]) / (seen[1][0] - seen[0][0])

    def test_four_workers_push_once(self):
        direct, local = self.bytes_per_step("direct"), self.bytes_per_step("local", *LOCAL)
        recovery.say(f"a step's bytes to the server: {direct:.0f} from 4 workers, {local:.0f} from their machine: "
                     f"{local / direct:.3f} of it")
        self.assertGreater(local / direct, 0.2)
        self.assertLess(local / direct, 0.35)

    def run_by_hand(self, run, *settings, machines=()):
        """The sha256 of a job's weights, with a worker on each of these machines, and what each has added up."""
        address = f"127.0.0.1:{harness.free_port()}"
        command = [harness.program("capstan-server"), self.job(), "--set", f"cluster.coordinator={address}", *settings,
                   *LOCAL, *workers(len(machines))]
        with contextlib.ExitStack() as stack:
            start = lambda *words: stack.enter_context(harness.Process(*words))
            coordinator = start(*command, "--coordinator", "--run-dir", self.path(run))
            coordinator.wait_for_line("metrics at http://")
            servers = [start(*command, "--index", index, "--run-dir", self.path(run)) for index in ("0", "1")]
            at_work = [start(harness.program("capstan-worker"), "--coordinator", address, "--name", f"w{index}", "--machine", name)
                       for index, name in enumerate(machines)]
            coordinator.wait_for_line("running: ")
            most = [0] * len(machines)
            while coordinator.child.poll() is None:
                for index, worker in enumerate(at_work):
                    page = re.search(r"metrics at http://([0-9.:]+)/", worker.output)
                    most[index] = max(most[index], self.reduced(page[1]) if page else 0)
            for process in (coordinator, *servers, *at_work):
                self.assertEqual(process.wait(), 0, process.output)
        return recovery.digest_of(self.path(run)), most

    def test_workers_of_two_machines_have_the_bits_of_one(self):
        for slots in (4, 5):
            settings = ["--set", f"job.slots={slots}"]
            with self.launch(self.job(), *settings, *workers(1), run=f"one-{slots}") as launch:
                self.assertEqual(launch.wait(), 0, launch.output)
            one = recovery.digest_of(self.path(f"one-{slots}"))
            two, reduced = self.run_by_hand(f"two-{slots}", *settings, machines=["a", "b", "a", "b"])
            self.assertEqual(two, one, f"{slots} slots")
            if slots == 4:  # each machine's are siblings; of five they are not, and all push by themselves
                self.assertTrue(all(reduced), reduced)

    def test_each_machine_has_a_group_of_its_own(self):
        with self.begin(*workers(2), "--set", "job.slots=4", "--set", "job.steps=1000000", run="run") as launch:
            launch.wait_for_line("running: ")
            started = []
            try:
                for name in ("far-0", "far-1"):
                    started.append(harness.Process(harness.program("capstan-worker"), "--coordinator",
                                                   self.endpoints()["coordinator"], "--name", name, "--machine", "far"))
                launch.wait_for_line('"far-1" joined')
                for name in ("worker-0", "worker-1"):
                    self.wait_until_reducing(launch, name)
                for process in started:
                    address = re.search(r"metrics at http://([0-9.:]+)/", process.output)[1]
                    begun = self.reduced(address)
                    recovery.poll(lambda: self.reduced(address) > begun, f"{process.output} adding up gradients")
            finally:
                for process in started:
                    process.__exit__()

    # ---- coming and going

    def test_whoever_comes_and_goes_the_bits_are_the_same(self):
        steps = ["--set", "job.steps=1000"]  # a group is formed in seconds, where the machine is busy
        with self.launch(self.job(), *steps, *workers(1), run="calm") as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        with self.begin(*steps, *workers(2)) as launch:
            launch.wait_for_line("running: ")
            self.wait_until_reducing(launch, "worker-0")
            with harness.Process(harness.program("capstan-worker"), "--coordinator", self.endpoints()["coordinator"],
                                 "--name", "late") as late:
                launch.wait_for_line('"late" joined')
                self.wait_until_reducing(launch, "worker-0")
                late.child.send_signal(signal.SIGTERM)
                late.wait()
                launch.wait_for_line('"late" left')
            self.wait_until_reducing(launch, "worker-0")
            self.assertEqual(launch.wait(), 0, launch.output)
        self.assertEqual(recovery.digest_of(self.path("run")), recovery.digest_of(self.path("calm")))

    def test_a_run_is_resumed_without_it_and_with_it(self):
        for arguments in ([], ["--set", "allreduce.local_reduce=none"], LOCAL):
            resumed = os.path.exists(self.path("run"))
            with self.resume(*arguments) if resumed else self.begin() as launch:
                launch.wait_for_line("running: ")
                self.wait_for_steps(launch, 30)
                if arguments is LOCAL:
                    self.assert_same_bits(launch)
                    continue
                launch.child.send_signal(signal.SIGINT)
                launch.wait()

    # ---- kills and pauses

    def disturb(self, name, number):
        self.assertTrue(recovery.kill_if_alive(recovery.pid_of(self.path("run"), name), number), name)

    def test_whoever_is_killed_the_bits_are_the_same(self):
        with self.begin(*workers(3), "--max-restarts", "100") as launch:
            launch.wait_for_line("running: ")
            for name in ("worker-0", "worker-1", "worker-2", "coordinator", "server-1"):
                self.wait_until_reducing(launch, "worker-2" if name == "worker-0" else "worker-0")
                self.disturb(name, signal.SIGKILL)
                self.wait_for_steps(launch, 5)
            self.assert_same_bits(launch)
        self.assert_nothing_runs()

    def test_whoever_stands_still_the_bits_are_the_same(self):
        for name in ("worker-0", "worker-1"):
            run_steps = 5
            with self.subTest(name), self.begin(*workers(3), run="run") as launch:
                launch.wait_for_line("running: ")
                self.wait_until_reducing(launch, name)
                pid = recovery.pid_of(self.path("run"), name)
                self.disturb(name, signal.SIGSTOP)
                self.wait_for_steps(launch, run_steps)
                recovery.kill_if_alive(pid, signal.SIGCONT)
                self.assert_same_bits(launch)
            self.assert_nothing_runs()
            shutil.rmtree(self.path("run"))


if __name__ == "__main__":
    harness.main()
