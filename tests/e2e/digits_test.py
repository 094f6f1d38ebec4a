#!/usr/bin/python3
"""examples/digits.toml names at least 97 % of the held-out handwritten digits right, with only the data of the tree."""
import os

import harness

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


class DigitsTest(harness.JobTest):
    def test_the_digits_example_reaches_97_percent(self):
        arguments = [harness.program("capstan"), "launch", "examples/digits.toml", "--run-dir", self.path("run")]
        with harness.Process(*arguments, cwd=ROOT) as launch:  # paths of the job file are seen from there
            self.assertEqual(launch.wait(), 0, launch.output)
        validated = [step for step in self.metrics() if "validation_accuracy" in step]
        print(f"validation accuracy {validated[-1]['validation_accuracy']:.4f}, loss {validated[-1]['validation_loss']:.4f}")
        self.assertEqual(validated[-1]["step"], 1499)
        self.assertGreaterEqual(validated[-1]["validation_accuracy"], 0.97)


if __name__ == "__main__":
    harness.main()
