#!/usr/bin/python3
"""Jobs in bf16 and fp16: the same bits for any number of workers, shards and threads, and when processes are killed.

One job overflows fp16 on purpose, because its features are large. Its first steps are skipped while the loss scale falls,
for all workers alike. The test checks that they were skipped, and that later steps were applied.
"""
import array
import random
import struct

import harness
import recovery
from same_bits_test import GPT_JOB

RESNET = """
[job]
name = "statistics"
mode = "sync"
steps = 6
seed = 7
global_batch = 16
slots = 3
eval_every = 4

[model]
kind = "resnet"
depth = 18
width = 4

[data]
kind = "synthetic"
image = [9, 8, 3]
classes = 4
samples = 64

[optimizer]
kind = "momentum"
lr = 0.02

[worker]
accumulate = 2
"""

MLP = """
[job]
name = "overflow"
mode = "sync"
steps = 20
seed = 7
global_batch = 24
slots = 3

[model]
kind = "mlp"
hidden = [32]

[data]
kind = "csv"
path = "PATH"
validation = 0.1

[optimizer]
kind = "sgd"
lr = 0.0001

[worker]
precision = "fp16"
"""


ALONE = ("1 worker", ["cluster.workers=1", "cluster.servers=1"])


def recomputed_by(workers):
    """Returns a case that differs from ALONE in everything that must not change the bits."""
    return (f"{workers} workers, 2 servers, 2 threads, recomputed",
            [f"cluster.workers={workers}", "cluster.servers=2", "worker.threads=2", "worker.recompute=true"])


class PrecisionTest(recovery.SameBitsTest):
    def gpt_has_one_digest(self, precision, workers):
        return self.assert_one_digest(GPT_JOB, [f"worker.precision={precision}"], ALONE, recomputed_by(workers))

    def test_the_bits_of_a_gpt_depend_on_its_precision_and_not_on_workers_or_shards(self):
        """The job has five slots, so five workers send gradients of single slots and no sums."""
        digests = {precision: self.gpt_has_one_digest(precision, workers) for precision, workers in (("bf16", 3), ("fp16", 5))}
        digests["fp32"] = self.run_job(GPT_JOB, "wide")
        self.assertEqual(len(set(digests.values())), 3, digests)

    def test_killed_processes_move_no_bit(self):
        """Tests bf16; test_kills_while_the_scale_falls_move_no_bit tests fp16."""
        self.assert_kills_move_no_bit(GPT_JOB, ["worker.precision=bf16", "job.steps=150"],
                                      ("worker-0", "server-1", "worker-1"))

    def test_running_statistics_have_the_same_bits_for_any_number_of_workers_and_shards_and_after_kills(self):
        for precision in ("fp32", "bf16", "fp16"):
            self.assert_one_digest(RESNET, [f"worker.precision={precision}"], ALONE, recomputed_by(3))
            names, _ = self.weights("run0")
            self.assertIn("bn1.running_mean", names)
            validated = [step["validation_loss"] for step in recovery.records(self.path("run0"))
                         if "validation_loss" in step]
            self.assertTrue(validated and all(loss is not None for loss in validated), validated)
        self.assert_kills_move_no_bit(RESNET, ["worker.precision=bf16", "job.steps=80"], ("worker-1", "server-0"))

    def overflowing_job(self):
        rng = random.Random(3)
        rows = [",".join(f"{rng.uniform(-400, 400):.3f}" for _ in range(6)) + f",{rng.randrange(4)}" for _ in range(200)]
        return MLP.replace("PATH", self.write("large.csv", "\n".join(rows) + "\n"))

    def test_a_scale_that_is_too_large_for_fp16_falls_for_all_workers_alike(self):
        text = self.overflowing_job()
        self.assert_one_digest(text, [], ALONE, ("3 workers, 2 servers", ["cluster.workers=3", "cluster.servers=2"]))
        for run in ("run0", "run1"):
            steps = recovery.records(self.path(run))
            scales = [step["loss_scale"] for step in steps]
            actions = [step["action"] for step in steps]
            self.assertEqual(scales[0], 65536)
            self.assertEqual(actions[0], "skip")
            self.assertEqual(actions[-1], "apply")
            for scale, action, after in zip(scales, actions, scales[1:]):
                self.assertEqual(after, scale / 2 if action == "skip" else scale)

    def test_kills_while_the_scale_falls_move_no_bit(self):
        self.assert_kills_move_no_bit(self.overflowing_job(), ["job.steps=600"], ("worker-0", "server-0", "worker-1"))

    def test_without_global_steps_each_slot_finds_its_own_scale(self):
        self.run_job(self.overflowing_job(), "async", "job.mode=async", "cluster.workers=2")
        losses = [step["loss"] for step in recovery.records(self.path("async"))]
        self.assertEqual(len(losses), 20)
        self.assertTrue(all(loss is not None and loss < 1e6 for loss in losses), losses)
        samples = [step["samples"] for step in recovery.records(self.path("async"))]
        self.assertEqual(samples[0], 0, "the first pushes are too large for 16 bits, and left out")
        self.assertEqual(samples[-1], 24, "the scales have fallen, and nothing is left out")
        self.assertLess(losses[-1], losses[0])
        _, content = self.weights("async")
        (length,) = struct.unpack("<Q", content[:8])
        self.assertTrue(all(value == value for value in array.array("f", content[8 + length:])))


if __name__ == "__main__":
    harness.main()
