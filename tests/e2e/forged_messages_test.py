#!/usr/bin/python3
"""A job whose shards get forged messages from a process that has no session: pushes of every kind, ends of slots, first
weights, questions, orders. They are refused, nobody learns a number from the answers, and the weights are those of an
undisturbed job; in mode async, whose weights differ from run to run, the loss falls as ever."""
import argparse
import os
import re
import subprocess
import sys

import harness
import recovery
from collective_jobs import CollectiveJob

REFUSED = "capstan_server_unknown_sessions_total"
FORGER = None


class ForgedMessagesTest(CollectiveJob, recovery.RecoveryTest):
    def check(self, *settings):
        words = recovery.options(settings)
        with self.launch(self.job(), *words) as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 3)
            address = self.endpoints("run")["coordinator"]
            with subprocess.Popen([FORGER, address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as forger:
                self.assertEqual(forger.stdout.readline(), "forging\n")
                self.wait_for_steps(launch, 20)
                answers, _ = forger.communicate(timeout=harness.DEADLINE)
            recovery.say(answers.strip())
            refused = [self.seen(name, REFUSED)[1] for name in ("server-0", "server-1")]
            self.assertGreater(min(refused), 0)
            said = {what: int(count) for what, count in re.findall(r"([a-z ]+) (\d+)", answers)}
            steps = recovery.stop(launch)
        self.assertEqual(said[" with numbers"], 0)
        for text in ("ended", "refused a message", "set aside", "goes back to"):
            self.assertNotIn(text, self.logs(only="worker"))
        if "job.mode=async" in settings:  # two runs of it differ in their bits
            losses = [record["loss"] for record in recovery.records(self.path("run"))]
            self.assertLess(max(losses[-10:]), losses[0])
        else:
            calm = recovery.undisturbed(self.text(steps), settings)
            self.assertEqual(recovery.digest_of_version(self.path("run"), steps), calm)

    def test_sync(self):
        self.check()

    def test_async(self):
        self.check("job.mode=async")

    def test_allreduce(self):
        self.check("job.mode=allreduce", "job.slots=2", "cluster.workers=2")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--forger", required=True, help="the program that sends forged messages")
    arguments, rest = parser.parse_known_args()
    FORGER = os.path.abspath(arguments.forger)
    sys.argv[1:] = rest
    harness.main()
