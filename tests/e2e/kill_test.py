#!/usr/bin/python3
"""kill -9 of any process, at any time: the job continues and has the same bits.

CAPSTAN_CHAOS_RUNS random runs (1 by default) kill a random process every 0.3 to 1.5 s (CAPSTAN_CHAOS_PAUSES=0.3:1.5), in
bursts, after each of which steps must be committed; CAPSTAN_CHAOS_SEED repeats their choices (not the timing of the
machine). Prints JSON lines: each run, and seconds from each kind of kill to the next step.
"""
import json
import os
import random
import signal
import statistics
import threading
import time

import harness
import recovery

BURSTS = 3
STEPS_BETWEEN = 25
UNDER_WAY = 0.02  # seconds: a step that was nearly done when the kill came is no recovery
PAUSES = [float(seconds) for seconds in os.environ.get("CAPSTAN_CHAOS_PAUSES", "0.3:1.5").split(":")]


def table(kind, times):
    times = sorted(times)
    recovery.say(json.dumps({"kill": kind, "count": len(times), "median_s": round(statistics.median(times), 3),
                             "worst_s": round(times[-1], 3)}))


class KillTest(recovery.RecoveryTest):
    def kill_at_random(self, launch, run, rng):
        """Kills processes in bursts of one to four. After each burst, waits for some steps. Returns (moment, name) of each kill."""
        kills = []
        for _ in range(BURSTS):
            before = len(kills)
            for _ in range(rng.randint(1, 4)):
                threading.Event().wait(rng.uniform(*PAUSES))
                moment, name = time.monotonic(), recovery.kill_one(self.path(run), rng)
                if name is not None:
                    kills.append((moment, name))
            self.assertGreater(len(kills), before, "an invalid run: no kill has hit")
            self.wait_for_steps(launch, STEPS_BETWEEN, run)
        return kills

    def run_with_random_kills(self, seed, run):
        with self.launch(self.job(), "--max-restarts", "1000", run=run) as launch, \
                recovery.StepClock(self.path(run)) as clock:
            launch.wait_for_line("running: ")
            began = time.monotonic()
            kills = self.kill_at_random(launch, run, random.Random(seed))
            ended = time.monotonic()
            steps = self.assert_stops_with_same_bits(launch, run)
        self.assert_nothing_runs(run)
        generation = max(record["generation"] for record in recovery.records(self.path(run)))
        recovery.say(json.dumps({"seed": seed, "kills": len(kills), "steps": steps, "generations": generation,
                                 "seconds": round(ended - began, 1), "killed": " ".join(name for _, name in kills)}))
        return kills, clock

    def test_random_kills(self):
        seed = recovery.chaos_seed()
        times = {}
        for index in range(recovery.CHAOS_RUNS):
            recovery.say(f"CAPSTAN_CHAOS_SEED={seed + index} repeats the next run's choices")
            kills, clock = [], None
            with self.subTest(seed=seed + index):
                kills, clock = self.run_with_random_kills(seed + index, f"run{index}")
            for moment, name in kills:
                seconds = clock.first_step_after(moment + UNDER_WAY)
                if seconds is not None:
                    times.setdefault(name.split("-")[0], []).append(seconds)
        for kind in sorted(times):
            table(f"random {kind}", times[kind])

    def test_kills_until_a_job_ends_by_itself(self):
        steps = 200
        with self.launch(self.job(steps), "--max-restarts", "1000") as launch:
            recovery.kill_until_done(launch, self.path("run"), steps)
            self.assert_same_bits(launch, steps=steps)
        self.assert_nothing_runs()

    def kill_and_measure(self, launch, clock, victims):
        """Kills these processes. Returns the seconds to the next committed step or, if a shard is killed, to the first one of a
        new generation."""
        self.wait_for_steps(launch, 20)
        for name in victims:  # the last kill's may still be on their start
            recovery.wait_until_alive(self.path("run"), name)
        generation = recovery.records(self.path("run"))[-1]["generation"]
        moment = time.monotonic()
        for name in victims:
            self.assertTrue(recovery.kill_if_alive(recovery.pid_of(self.path("run"), name), signal.SIGKILL), name)
        if any(name.startswith("server") for name in victims):
            recovery.poll(lambda: recovery.records(self.path("run"))[-1]["generation"] > generation or launch.closed,
                          "a step of a higher generation")
        self.assertFalse(launch.closed, launch.output)
        return recovery.poll(lambda: clock.first_step_after(moment + UNDER_WAY), "a step after the kill")

    def test_each_role_alone_and_all_at_once(self):
        workers, servers = ["worker-0", "worker-1", "worker-2"], ["server-0", "server-1"]
        rounds = [("coordinator", ["coordinator"]), ("server", ["server-1"]), ("worker", ["worker-0"]),
                  ("everything", [*workers, "coordinator", *servers]), ("worker", ["worker-2"]), ("workers", workers),
                  ("coordinator", ["coordinator"]), ("servers", servers), ("server", ["server-0"]),
                  ("coordinator and server", ["coordinator", "server-0"]), ("everything", [*servers, "coordinator", *workers])]
        times = {}
        with self.launch(self.job()) as launch, recovery.StepClock(self.path("run")) as clock:
            launch.wait_for_line("running: ")
            for kind, victims in rounds:
                try:
                    times.setdefault(kind, []).append(self.kill_and_measure(launch, clock, victims))
                except AssertionError as error:
                    raise AssertionError(f"after the kill of {victims}: {error}; it said:\n{launch.output}") from None
            self.assert_stops_with_same_bits(launch)
        self.assert_nothing_runs()
        for kind, seconds in times.items():
            table(kind, seconds)

    def test_too_many_kills_end_the_job_and_say_so(self):
        with self.launch(self.job(), "--max-restarts", "1") as launch:
            launch.wait_for_line("running: ")
            harness.kill(self.pids()["worker-1"])
            launch.wait_for_line("worker-1 was killed by signal 9 (Killed); starting it again (1 of at most 1 times within an hour)")
            harness.kill(self.pids()["worker-0"])  # another one has a budget of its own
            launch.wait_for_line("worker-0 was killed by signal 9 (Killed); starting it again (1 of at most 1 times within an hour)")
            recovery.wait_until_alive(self.path("run"), "worker-0")
            harness.kill(self.pids()["worker-0"])
            self.assertEqual(launch.wait(), 1, launch.output)
            self.assertIn("worker-0 was killed by signal 9 (Killed) after 1 restarts within an hour", launch.output)
        self.assert_nothing_runs()


if __name__ == "__main__":
    harness.main()
