#!/usr/bin/python3
"""allreduce.local_reduce: workers of one machine add up their gradients, and one of them pushes for all.

It changes only the bytes that travel: every run has the weights of the same job without it.
"""
import contextlib
import re
import signal

import harness
import recovery
from collective_jobs import REDUCED, CollectiveJob

RECEIVED = 'capstan_network_receive_bytes_total{plane="data"'
LOCAL = ["--set", "allreduce.local_reduce=gloo"]
PAGE = re.compile(r"metrics at http://([0-9.:]+)/")


def workers(count):
    return ["--set", f"cluster.workers={count}"]


def names(count):
    return [f"worker-{index}" for index in range(count)]


class LocalReduceTest(CollectiveJob, recovery.RecoveryTest):
    def begin(self, *arguments, run="run"):
        return self.launch(self.job(), *LOCAL, *arguments, run=run)

    def wait_until_reducing(self, launch, count, run="run"):
        """Waits until the job's first `count` workers add up gradients."""
        launch.wait_for_line("running: ")
        self.wait_until_counting(launch, names(count), REDUCED, run)

    def wait_for_reducing_process(self, process):
        """Waits until a worker that was started by hand adds up gradients."""
        address = PAGE.search(process.wait_for_line("metrics at http://"))[1]
        begun = self.page_of(address).get(REDUCED, 0)
        recovery.poll(lambda: process.closed or self.page_of(address).get(REDUCED, 0) > begun, "adding up gradients")
        self.assertFalse(process.closed, process.output)

    def assert_stops_with_bits_of_one_worker(self, coordinator, run, settings):
        steps = recovery.stop(coordinator)
        calm = recovery.undisturbed(self.text(steps), [*settings, *self.UNDISTURBED])
        self.assertEqual(recovery.digest_of_version(self.path(run), steps), calm, f"{settings}, after {steps} steps")

    # ---- undisturbed

    def test_the_bits_are_those_of_every_worker_pushing_by_itself(self):
        for count in (2, 4):
            run = f"run{count}"
            with self.subTest(workers=count), self.begin(*workers(count), run=run) as launch:
                self.wait_until_reducing(launch, count, run)
                self.wait_for_steps(launch, 20, run)
                self.assert_stops_with_same_bits(launch, run)

    def test_four_slots_and_numbers_of_16_bits(self):
        for precision, count in (("fp32", 4), ("bf16", 2), ("fp16", 4)):
            settings = ["job.slots=4", f"worker.precision={precision}", "worker.accumulate=2"]
            with self.subTest(precision), self.begin(*recovery.options(settings), *workers(count), run=precision) as launch:
                self.wait_until_reducing(launch, count, precision)
                self.wait_for_steps(launch, 20, precision)
                self.assert_stops_with_bits_of_one_worker(launch, precision, settings)

    def received(self, run):
        """Returns how many steps are done, and how many bytes the only server has received by then."""
        before = recovery.count_records(self.path(run))
        received = sum(value for name, value in self.counters("server-0", run).items() if name.startswith(RECEIVED))
        return (before + recovery.count_records(self.path(run))) / 2, received

    @contextlib.contextmanager
    def four_at_work(self, run, *arguments):
        """Runs a job of four workers and one server within the block, which begins after the job's first steps."""
        with self.launch(self.job(), *workers(4), "--set", "job.slots=4", "--set", "cluster.servers=1", *arguments,
                         run=run) as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 10, run)
            yield launch
            recovery.stop(launch)

    def bytes_per_step(self, launch, run):
        """Returns the bytes that the only server receives per step: the mean over the next 100 steps."""
        begun = self.received(run)
        self.wait_for_steps(launch, 100, run)
        ended = self.received(run)
        return (ended[1] - begun[1]) / (ended[0] - begun[0])

    def test_four_workers_push_once(self):
        with self.four_at_work("direct") as launch:
            direct = self.bytes_per_step(launch, "direct")
        with self.four_at_work("local", *LOCAL) as launch:
            shares = []

            def push_as_one():
                """On a busy machine a late worker is left out for a while, and pushes by itself; and the steps are counted
                a little before or after the bytes."""
                shares.append(self.bytes_per_step(launch, "local") / direct)
                return 0.2 < shares[-1] < 0.35

            try:
                recovery.poll(push_as_one, "four workers that push as one")
            finally:
                recovery.say(f"a step's bytes to the server: {direct:.0f} from 4 workers, of it from their machine: {shares}")

    @contextlib.contextmanager
    def by_hand(self, run, *settings, machines):
        """Starts a coordinator, two servers, and a worker for each of these names of machines."""
        address = harness.free_address()
        command = [harness.program("capstan-server"), self.job(), "--set", f"cluster.coordinator={address}", "--run-dir",
                   self.path(run), *recovery.options(settings), *LOCAL, *workers(len(machines))]
        with contextlib.ExitStack() as stack:
            start = lambda *words: stack.enter_context(harness.Process(*words))
            coordinator = start(*command, "--coordinator")
            coordinator.wait_for_line("metrics at http://")
            for index in ("0", "1"):
                start(*command, "--index", index)
            at_work = [start(harness.program("capstan-worker"), "--coordinator", address, "--name", f"w{index}", "--machine", name)
                       for index, name in enumerate(machines)]
            coordinator.wait_for_line("running: ")
            yield coordinator, at_work

    def test_workers_of_two_machines_have_the_bits_of_one(self):
        for slots in (4, 5):
            with self.subTest(slots=slots), self.by_hand(f"two-{slots}", f"job.slots={slots}",
                                                         machines=["a", "b", "a", "b"]) as (coordinator, at_work):
                if slots == 4:  # each machine's are siblings; of five they are not, and all push by themselves
                    for process in at_work:
                        self.wait_for_reducing_process(process)
                self.wait_for_steps(coordinator, 40, f"two-{slots}")
                self.assert_stops_with_bits_of_one_worker(coordinator, f"two-{slots}", [f"job.slots={slots}"])

    def another_worker(self, *arguments):
        return harness.Process(harness.program("capstan-worker"), "--coordinator", self.endpoints()["coordinator"], *arguments)

    def test_each_machine_has_a_group_of_its_own(self):
        with self.begin(*workers(2), "--set", "job.slots=4") as launch:
            launch.wait_for_line("running: ")
            with self.another_worker("--name", "far-0", "--machine", "far") as first, \
                    self.another_worker("--name", "far-1", "--machine", "far") as second:
                for name in ("far-0", "far-1"):
                    launch.wait_for_line(f'"{name}" joined')
                self.wait_until_reducing(launch, 2)
                for process in (first, second):
                    self.wait_for_reducing_process(process)

    # ---- coming and going

    def test_whoever_comes_and_goes_the_bits_are_the_same(self):
        with self.begin(*workers(2)) as launch:
            self.wait_until_reducing(launch, 2)
            with self.another_worker("--name", "late") as late:
                launch.wait_for_line('"late" joined')
                self.wait_until_reducing(launch, 2)
                late.child.send_signal(signal.SIGTERM)
                late.wait()
                launch.wait_for_line('"late" left')
            self.wait_until_reducing(launch, 2)
            self.assert_stops_with_same_bits(launch)

    def test_a_run_is_resumed_without_it_and_with_it(self):
        with self.begin(*workers(2)) as launch:
            self.wait_until_reducing(launch, 2)
            recovery.stop(launch)
        with self.resume("--set", "allreduce.local_reduce=none") as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 20)
            recovery.stop(launch)
        with self.resume(*LOCAL) as launch:
            self.wait_until_reducing(launch, 2)
            self.assert_stops_with_same_bits(launch)

    # ---- kills and pauses

    def test_whoever_is_killed_the_bits_are_the_same(self):
        with self.begin(*workers(3), "--max-restarts", "100") as launch:
            for name in ("worker-0", "worker-1", "worker-2", "coordinator", "server-1"):
                self.wait_until_reducing(launch, 3)
                self.disturb(launch, [name], signal.SIGKILL)
                self.wait_for_steps(launch, 5)
            self.wait_until_reducing(launch, 3)
            self.assert_stops_with_same_bits(launch)
        self.assert_nothing_runs()

    def test_whoever_stands_still_the_bits_are_the_same(self):
        with self.begin(*workers(3)) as launch:
            for name in ("worker-0", "worker-1"):
                self.wait_until_reducing(launch, 3)
                (pid,) = self.disturb(launch, [name], signal.SIGSTOP)
                self.wait_for_steps(launch, 5)
                recovery.kill_if_alive(pid, signal.SIGCONT)
            self.wait_until_reducing(launch, 3)
            self.assert_stops_with_same_bits(launch)
        self.assert_nothing_runs()


if __name__ == "__main__":
    harness.main()
