#!/usr/bin/python3
"""The curves that a coordinator writes for TensorBoard are those of metrics.jsonl: after an undisturbed job, and after one
that lost a server and its coordinator, and was resumed."""
import glob
import os

import event_files
import harness
import recovery

SETTINGS = "--set", "metrics.tensorboard=true"


class TensorBoardTest(recovery.RecoveryTest):
    SOME = 9000  # steps of a job that is stopped before its end; each has a point
    CURVES = {"train/loss": "loss", "train/learning_rate": "lr", "train/gradient_norm": "grad_norm",
              "validation/loss": "validation_loss", "validation/accuracy": "validation_accuracy"}

    def assert_shows_metrics(self):
        """Checks that each curve has the last record of each step."""
        last = {record["step"]: record for record in self.metrics()}
        folder = self.path("run", "tensorboard")
        shown = event_files.curves(folder)
        for tag, key in self.CURVES.items():
            wanted = [(step, record[key]) for step, record in sorted(last.items()) if key in record]
            self.assertEqual([step for step, _ in shown[tag]], [step for step, _ in wanted], tag)
            for (step, value), (_, expected) in zip(shown[tag], wanted):
                self.assertAlmostEqual(value, expected, delta=1e-6 * max(1, abs(expected)), msg=f"{tag}, step {step}")
        timed = sum(record["seconds"] > 0 for record in last.values())  # a first step after a start has no time
        self.assertEqual(len(shown["train/samples_per_second"]), timed)
        if event_files.HAS_TENSORBOARD:
            self.assertEqual(event_files.curves_as_tensorboard_shows_them(folder), shown)
        recovery.say(f"{len(last)} steps, read by our reader" + (" and TensorBoard's" if event_files.HAS_TENSORBOARD else ""))

    def files(self):
        return glob.glob(self.path("run", "tensorboard", "events.out.tfevents.*"))

    def test_the_curves_of_a_job_are_those_of_its_metrics(self):
        with self.launch(self.job_file(steps=20), *SETTINGS) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        self.assertEqual(len(self.files()), 1)
        self.assert_shows_metrics()

    def test_steps_that_are_done_again_are_shown_once(self):
        with self.launch(self.job(self.SOME), *SETTINGS) as launch:
            launch.wait_for_line("snapshot of version")
            self.wait_for_steps(launch, 5)
            lines = len(launch.lines)
            harness.kill(self.pids()["server-1"])
            launch.wait_for_line("every shard starts from the snapshot of version ", since=lines)
            self.wait_for_steps(launch, 5)
            harness.kill(self.pids()["coordinator"])
            self.wait_for_steps(launch, 5)
            harness.kill(launch.pid)
        recovery.poll(lambda: all(harness.ended(pid) for pid in self.pids().values()), "the end of all processes")
        with self.resume() as launch:
            self.wait_for_steps(launch, 5)
            recovery.poll(lambda: launch.closed or recovery.has_caught_up(self.path("run")), "the steps that were taken back")
            recovery.stop(launch)
        self.assertGreater(len(self.files()), 2)
        self.assertGreater(len(self.metrics()), len({record["step"] for record in self.metrics()}), "no step was done again")
        self.assert_shows_metrics()

    def test_a_folder_that_cannot_be_written_is_a_warning(self):
        os.mkdir(self.path("run"))
        self.write("run/tensorboard", "in the way")
        with self.launch(self.job_file(steps=20), *SETTINGS) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        warnings = [line for line in launch.lines if "tensorboard" in line]
        self.assertEqual(len(warnings), 1, launch.output)
        self.assertIn("the curves for TensorBoard have a gap", warnings[0])


if __name__ == "__main__":
    harness.main()
