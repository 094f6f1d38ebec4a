"""examples/digits.toml names at least 97 % of the held-out handwritten digits right."""
import os
import sys

import harness

DATA = "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz"
JOB = os.path.join(os.path.dirname(__file__), "..", "..", "examples", "digits.toml")


class DigitsTest(harness.JobTest):
    def test_the_digits_example_reaches_97_percent(self):
        with self.launch(os.path.abspath(JOB)) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        validated = [step for step in self.metrics() if "validation_accuracy" in step]
        print(f"validation accuracy {validated[-1]['validation_accuracy']:.4f}, loss {validated[-1]['validation_loss']:.4f}")
        self.assertEqual(validated[-1]["step"], 1499)
        self.assertGreaterEqual(validated[-1]["validation_accuracy"], 0.97)


if __name__ == "__main__":
    if not os.path.exists(DATA):
        print(f"SKIPPED: {DATA} is not there; install python3-sklearn", file=sys.stderr)
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    harness.main()
