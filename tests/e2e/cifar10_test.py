"""Jobs on images in CIFAR-10's format: crops and flips are the same, whichever worker computes a slot."""
import hashlib
import os
import random

import harness

JOB = """\
[job]
name = "images"
steps = 12
seed = 3
global_batch = 25
slots = 5
eval_every = 6

[model]
kind = "mlp"
hidden = [24]

[data]
kind = "cifar10"
path = "images"

[cluster]
servers = 1
workers = 1
"""


class Cifar10Test(harness.JobTest):
    def setUp(self):
        super().setUp()
        images = random.Random(11)
        os.mkdir(self.path("images"))
        for name in [f"data_batch_{i}" for i in range(1, 6)] + ["test_batch"]:
            with open(self.path("images", name + ".bin"), "wb") as file:
                for _ in range(17):
                    label = images.randrange(10)
                    file.write(bytes([label]) + bytes(min(255, 20 * label + images.randrange(60)) for _ in range(3072)))
        self.write("job.toml", JOB)

    def digest(self, run, *settings):
        words = [word for setting in settings for word in ("--set", setting)]
        with self.launch(self.path("job.toml"), *words, run=run) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        with open(self.path(run, "final.safetensors"), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def test_any_number_of_workers_draws_the_same_crops_and_flips(self):
        alone = self.digest("alone")
        self.assertEqual(self.digest("many", "cluster.workers=3", "cluster.servers=2"), alone)
        plain = {self.digest("no-crop", "data.crop=false"), self.digest("no-flip", "data.flip=false"),
                 self.digest("plain", "data.crop=false", "data.flip=false")}
        self.assertEqual(len(plain | {alone}), 4)
        rows = self.metrics("alone")
        self.assertEqual([row["samples"] for row in rows], [25, 25, 25, 10] * 3)  # 85 images an epoch
        self.assertLess(rows[-1]["loss"], rows[0]["loss"])
        self.assertIn("validation_loss", rows[0])

    def test_a_damaged_file_ends_the_job_and_is_named(self):
        with open(self.path("images", "data_batch_3.bin"), "r+b") as file:
            file.seek(5 * 3073)
            file.write(b"\x0a")
        with self.launch(self.path("job.toml")) as launch:
            self.assertNotEqual(launch.wait(), 0, launch.output)
            self.assertIn("data_batch_3.bin: image 5 has class 10", launch.output)


if __name__ == "__main__":
    harness.main()
