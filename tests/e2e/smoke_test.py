#!/usr/bin/python3
"""Real processes in seconds, for `scripts/test --quick`: a small job has the same bits with other workers and shards, and with
one process of each role killed."""
import harness
import recovery

JOB = """\
[job]
name = "smoke"
steps = 30
global_batch = 12
slots = 3

[model]
kind = "mlp"
hidden = [64, 32]

""" + recovery.LEARNING


class SmokeTest(recovery.SameBitsTest):
    def test_workers_and_shards_change_no_bit(self):
        self.assert_one_digest(JOB, [], ("1 worker, 1 server", ["cluster.workers=1", "cluster.servers=1"]),
                               ("3 workers, 2 servers", ["cluster.workers=3", "cluster.servers=2"]))

    def test_a_kill_of_each_role_changes_no_bit(self):
        self.assert_kills_move_no_bit(JOB, [], ("worker-1", "server-0", "coordinator"))


if __name__ == "__main__":
    harness.main()
