#!/usr/bin/python3
"""A long job of small steps: random kills all the time, a spare worker, a reader, and stops with a resume by other numbers of
workers and servers. The weights equal those of an undisturbed job, and no process grows with the job's age.

CAPSTAN_LONG_STEPS is how many steps the job does at least (2,000 by default; 200,000 take about an hour on two cores).
"""
import os
import random
import re
import signal
import sys
import threading
import time

import harness
import installed_prefix
import recovery

STEPS = int(os.environ.get("CAPSTAN_LONG_STEPS", "2000"))
PARTS = 2 if STEPS < 10000 else 6  # between two of them the job is stopped and resumed
KILL_SECONDS = (0.5, 3.0)  # from one kill to the next
ROLES = {"coordinator", "server", "worker"}
JOB = f"""\
[job]
name = "long"
steps = {{steps}}
seed = 5
global_batch = 12
slots = 3

[model]
kind = "mlp"
hidden = [16]

[data]
{harness.SYNTHETIC}

[optimizer]
kind = "adamw"
clip_norm = 0.5

[cluster]
coordinator = "{harness.HOST}:0"
listen = "{harness.HOST}:0"
servers = 2
workers = 4

[metrics]
listen = "{harness.HOST}:0"

[snapshot]
every_steps = 20

[limits]
join = {harness.patient(60)}
lease = {harness.patient(3)}
stall = {recovery.STALL}
"""
FOLLOWER = """
import sys, capstan
steps = 0
for version in capstan.follow(sys.argv[1]):
    steps += 1
print("followed", steps, "versions")
"""


def usage_of(pid):
    """Returns the process's resident KiB, open descriptors, and how many of these are sockets; None if it has ended."""
    try:
        with open(f"/proc/{pid:d}/status", encoding="ascii", errors="replace") as file:
            resident = re.search(r"VmRSS:\s+(\d+)", file.read())
        targets = []
        for descriptor in os.listdir(f"/proc/{pid:d}/fd"):
            targets.append(os.readlink(f"/proc/{pid:d}/fd/{descriptor}"))
        return int(resident[1]), len(targets), sum(target.startswith("socket:") for target in targets)
    except (OSError, TypeError):
        return None


def bytes_below(folder):
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
            except FileNotFoundError:
                pass  # it was deleted meanwhile
    return total


def newest_step(run):
    """Returns the number of the last step in metrics.jsonl; -1 if there is none."""
    try:
        with open(os.path.join(run, "metrics.jsonl"), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            found = re.findall(rb'"step": ?(\d+)[^\n]*\n', file.read())
            return int(found[-1]) if found else -1
    except FileNotFoundError:
        return -1


class LongJobTest(recovery.RecoveryTest):
    def job(self, steps=None):
        return self.write("job.toml", JOB.format(steps=steps or harness.ENDLESS))

    def alive(self):
        run = self.path("run")
        return [name for name in recovery.names_in(run) if not harness.ended(recovery.pid_of(run, name))]

    def look(self, launch, when):
        """Prints a line for each process with its memory, descriptors and sockets, and a line with the run's size on disk."""
        run = self.path("run")
        processes = {"launch": launch.pid} | {name: recovery.pid_of(run, name) for name in self.alive()}
        for name, pid in processes.items():
            if (usage := usage_of(pid)) is not None:
                recovery.say(f"{when:>9}: {name:12} {usage[0]:8} KiB, {usage[1]:4} descriptors, {usage[2]:4} sockets")
        recovery.say(f"{when:>9}: {'on disk':12} {bytes_below(run) // 1024:8} KiB")

    def disturb_until(self, step, launch, members, rng):
        """Kills processes until the job has done this step and each role was hit. Returns the role of each kill."""
        run, last, since, kills = self.path("run"), -1, time.monotonic(), []
        while (now := newest_step(run)) < step or set(kills) != ROLES:
            self.assertFalse(launch.closed, launch.output[-4000:])
            if now > last:
                last, since = now, time.monotonic()
            self.assertLess(time.monotonic(), since + recovery.STALL, "no step was done")
            threading.Event().wait(rng.uniform(*KILL_SECONDS))
            roles = ROLES - set(kills) or ROLES
            name = rng.choice([name for name in members if name.split("-")[0] in roles])
            if recovery.kill_if_alive(recovery.pid_of(run, name), signal.SIGKILL):
                kills.append(name.split("-")[0])
        return kills

    def follower(self, launch):
        address = self.endpoints()["coordinator"]
        packages = os.path.join(installed_prefix.prefix(harness.BIN), "lib", "python3", "dist-packages")
        return harness.Process("/usr/bin/env", f"PYTHONPATH={packages}", sys.executable, "-B", "-c", FOLLOWER, address)

    def test_weights_are_those_of_an_undisturbed_job_and_nothing_grows(self):
        seed = recovery.chaos_seed()
        recovery.say(f"CAPSTAN_CHAOS_SEED={seed}")
        rng, run, kills, begun = random.Random(seed), self.path("run"), [], time.monotonic()
        more = ["--max-restarts", "1000000"]
        start = lambda: self.launch(self.job(), *more)
        for part in range(PARTS):
            with start() as launch:
                launch.wait_for_line("running: ")
                recovery.poll(lambda: newest_step(run) >= part * STEPS // PARTS + 20, "a step")
                members = self.alive()
                self.look(launch, f"part {part + 1}")
                with self.follower(launch):
                    kills += self.disturb_until((part + 1) * STEPS // PARTS, launch, members, rng)
                recovery.poll(lambda: self.alive() == members, "all processes")
                now = newest_step(run)
                recovery.poll(lambda now=now: newest_step(run) >= now + 25, "25 more steps")
                self.look(launch, f"end of {part + 1}")
                steps = recovery.stop(launch)
            servers, workers = rng.randint(1, 3), rng.randint(2, 5)
            resumed = [*recovery.options([f"cluster.servers={servers}", f"cluster.workers={workers}"]), *more]
            start = lambda: self.resume(*resumed)
        recovery.say(f"{steps} steps in {time.monotonic() - begun:.0f} s, killed: "
                     + ", ".join(f"{role} {kills.count(role)} times" for role in sorted(ROLES)))
        self.assertEqual(recovery.digest_of_version(run, steps),
                         recovery.undisturbed(JOB.format(steps=steps), recovery.ONE_OF_EACH), f"after {steps} steps")


if __name__ == "__main__":
    harness.main()
