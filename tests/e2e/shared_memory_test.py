#!/usr/bin/python3
"""Workers and servers of one machine that read each other's weights and gradients where they lie: the bits of a job over
sockets, whoever is killed or stands still meanwhile, and no region or descriptor is left behind.

CAPSTAN_CHAOS_RUNS times 6 disturbances (1 by default): SIGKILL, or SIGSTOP for up to a second, of a worker or a server.
CAPSTAN_CHAOS_SEED repeats their choices.
"""
import contextlib
import os
import random
import re
import signal
import subprocess
import threading
import urllib.request

import harness
import recovery
import skips

DISTURBANCES = 6 * recovery.CHAOS_RUNS
IN_A_CONTAINER = "unshare", "--pid", "--fork", "--kill-child"  # there sockets give 0 as the id of a process outside


def regions_of(pid):
    """How many regions of shared memory a process maps, and how many descriptors it has open of such and of processes
    that it watches."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        maps = sum("memfd:capstan" in line for line in file)
    links = []
    for entry in os.scandir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(entry.path))
        except FileNotFoundError:
            pass  # closed meanwhile
    return maps, sum("memfd:capstan" in link for link in links), sum("pidfd" in link for link in links)


class SharedMemoryTest(recovery.RecoveryTest):
    @classmethod
    def text(cls, steps):
        """The job without addresses, so that its sockets are local."""
        return re.sub(r'(?m)^(coordinator|listen) = .*\n', "", super().text(steps).split("[metrics]")[0]) + \
            "[metrics]" + super().text(steps).split("[metrics]")[1]

    def shared_payloads(self):
        """The payloads that the servers did not send, because workers read them where they lie."""
        total = 0
        for name, address in self.endpoints()["metrics"].items():
            if name.startswith("server-"):
                with urllib.request.urlopen(f"http://{address}/metrics", timeout=harness.DEADLINE) as answer:
                    found = re.findall(r"(?m)^capstan_network_shared_payloads_total\S* (\d+)", answer.read().decode())
                total += sum(map(int, found))
        return total

    def test_weights_and_gradients_stay_where_they_lie_unless_the_job_says_otherwise(self):
        for shared in (True, False):
            with self.subTest(shared=shared):
                run = f"run-{shared}"
                settings = recovery.options([f"cluster.shared_memory={str(shared).lower()}"])
                with self.launch(self.job(), *settings, run=run) as launch:
                    launch.wait_for_line("running: ")
                    self.wait_for_steps(launch, 20, run)
                    sockets = os.listdir(os.path.dirname(self.endpoints(run)["coordinator"].removeprefix("ipc://")))
                    self.assertEqual("shard-0.m" in sockets, shared)
                    maps = {name: regions_of(pid) for name, pid in self.pids(run).items()}
                    for name, (regions, *_) in maps.items():
                        if name != "coordinator":
                            self.assertEqual(regions > 2, shared, maps)
                    self.assertNotIn("shared memory", launch.output)
                    self.assert_stops_with_same_bits(launch, run)
                self.assert_nothing_runs(run)

    def test_the_servers_count_payloads_that_are_not_sent(self):
        with self.launch(self.job()) as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 20)
            recovery.poll(lambda: self.shared_payloads() >= 20, "shared payloads")
            self.assert_stops_with_same_bits(launch)

    @contextlib.contextmanager
    def contained(self, program, *arguments):
        """Starts a program in a container of its own. Gives the container and the program's process id."""
        with harness.Process(*IN_A_CONTAINER, harness.program(program), *arguments, cwd=self.folder) as container:
            path = f"/proc/{container.pid}/task/{container.pid}/children"

            def child():
                self.assertFalse(container.closed, container.output)
                with open(path, encoding="utf-8") as file:
                    return file.read().split()
            yield container, int(recovery.poll(child, f"{program} in its container")[0])

    def test_processes_in_containers_of_their_own_share_memory_too(self):
        if subprocess.run([*IN_A_CONTAINER, "true"], capture_output=True, check=False).returncode != 0:
            skips.skip(self, "this user may not have process namespaces of its own")
        with contextlib.ExitStack() as stack:
            head = stack.enter_context(harness.Process(harness.program("capstan-server"), self.job(), "--coordinator",
                                                       "--run-dir", self.path("run"), cwd=self.folder))
            address = re.search(r"--join (\S+) ", head.wait_for_line("servers: capstan-server --join "))[1]

            def start(name):
                kind, _, index = name.partition("-")
                return stack.enter_context(
                    self.contained("capstan-server", "--join", address, "--index", index, "--run-dir", self.path("run"))
                    if kind == "server" else self.contained("capstan-worker", "--coordinator", address, "--name", name))
            members = {name: start(name) for name in ("server-0", "server-1", "a", "b", "c")}
            self.wait_for_steps(head, 20)
            for name in ("server-0", "a"):
                container, pid = members[name]
                os.kill(pid, signal.SIGKILL)
                container.wait()
                members[name] = start(name)
                self.wait_for_steps(head, 20)
            recovery.poll(lambda: self.shared_payloads() >= 20, "shared payloads")
            for name, (container, pid) in members.items():
                recovery.poll(lambda: regions_of(pid)[0] > 2, f"shared memory of {name}")
                self.assertEqual(regions_of(pid)[2], 0, f"{name} watches a process that it should not see")
                self.assertNotIn("shared memory", container.output)
            self.assert_stops_with_same_bits(head)

    def disturb(self, rng):
        """Kills or stops a worker or a server that runs, for a moment."""
        name = rng.choice([name for name in recovery.names_in(self.path("run")) if name != "coordinator"])
        pid = recovery.pid_of(self.path("run"), name)
        if rng.random() < 0.5:
            return recovery.kill_if_alive(pid, signal.SIGKILL) and f"{name} killed"
        if not recovery.kill_if_alive(pid, signal.SIGSTOP):
            return False
        threading.Event().wait(rng.uniform(0.05, 1))
        recovery.kill_if_alive(pid, signal.SIGCONT)
        return f"{name} stopped"

    def test_whoever_is_killed_or_stands_still_the_bits_are_the_same_and_nothing_is_left(self):
        seed = recovery.chaos_seed()
        recovery.say(f"CAPSTAN_CHAOS_SEED={seed}")
        rng, done = random.Random(seed), []
        with self.launch(self.job(), "--max-restarts", "1000") as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 20)
            before = {name: regions_of(pid) for name, pid in self.pids().items()}
            while len(done) < DISTURBANCES:
                self.wait_for_steps(launch, rng.randint(1, 8))
                if said := self.disturb(rng):
                    done.append(said)
            self.wait_for_steps(launch, 20)
            for name, pid in self.pids().items():
                recovery.poll(lambda: all(now <= then for now, then in zip(regions_of(pid), before[name])),
                              f"{name} having no more regions than before {done}: {before[name]}")
            self.assert_stops_with_same_bits(launch)
        self.assert_nothing_runs()
        recovery.say(f"{len(done)} disturbances: {', '.join(done)}")


if __name__ == "__main__":
    skips.main()
