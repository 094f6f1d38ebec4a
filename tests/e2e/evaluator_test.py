#!/usr/bin/python3
"""A program that follows a running job without taking part: rising steps, the last version with its bits, and the errors of
the package's reader on wrong use."""
import os
import re
import signal
import struct

import harness
import own_workers
import recovery
import skips

SCRIPT = """
import sys
import capstan, numpy as np

try:
{lines}
except capstan.Error as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""
LINE = re.compile(r"^step (\d+): ([\d.]+)% of 2000 are right(, the last version)?$")


class EvaluatorTest(own_workers.OwnWorkersTest):
    EXAMPLE = "python"
    STEPS = 600

    def example(self, name, *arguments):
        return self.python(os.path.join(own_workers.EXAMPLES, "python", name), *arguments)

    def worker(self, coordinator, name):
        return self.example("softmax.py", coordinator, name)

    def lines(self, *lines):
        return self.write("reader.py", SCRIPT.format(lines="\n".join("    " + line for line in lines)))

    def versions(self, evaluator):
        """Returns (step, accuracy, whether it is the last) of each line that the evaluator printed."""
        found = [LINE.match(line) for line in evaluator.lines]
        self.assertTrue(found and all(found), evaluator.output)
        return [(int(match[1]), float(match[2]), match[3] is not None) for match in found]

    def follow(self, mode):
        """Runs a job in this mode with an evaluator, and checks the bits of its last version. Returns the versions it saw."""
        with self.job("followed", 1, f"job.mode={mode}") as launch:
            address = self.address(launch)
            with self.example("evaluate.py", address, self.path("last.npz")) as evaluator, \
                    self.gate(self.STEPS // 3) as first, self.gate(self.STEPS // 2) as second:
                with self.worker(address, "a") as worker:
                    for count, gate in enumerate((first, second), 1):
                        recovery.poll(lambda: len(evaluator.lines) >= count, f"{count} versions")
                        gate.open()
                    self.digest_at_end(launch, "followed", [worker])
                self.assertEqual(evaluator.wait(), 0, evaluator.output)
                versions = self.versions(evaluator)
        import numpy as np
        with np.load(self.path("last.npz")) as last:
            bits = b"".join(last[name].tobytes() for name in ("weight", "bias"))
        content = self.weights("followed")[1]
        self.assertEqual(content[8 + struct.unpack("<Q", content[:8])[0]:], bits)
        return versions

    def check(self, versions):
        steps = [step for step, _, _ in versions]
        self.assertEqual(steps, sorted(set(steps)))
        self.assertGreaterEqual(len(steps), 3)
        self.assertEqual(steps[-1], self.STEPS)
        self.assertEqual([last for _, _, last in versions], [False] * (len(versions) - 1) + [True])
        self.assertGreater(versions[-1][1], 90)

    def test_it_sees_rising_steps_and_the_final_weights(self):
        self.check(self.follow("sync"))

    def test_it_does_so_without_global_steps(self):
        self.check(self.follow("async"))

    def test_an_evaluator_that_stands_still_holds_up_nothing_but_the_end_for_one_lease(self):
        with self.job("still", 1) as launch:
            address = self.address(launch)
            with self.example("evaluate.py", address) as evaluator, self.gate(self.STEPS // 2) as gate, \
                    self.worker(address, "a") as worker:
                evaluator.wait_for_line("step ")
                os.kill(evaluator.pid, signal.SIGSTOP)
                gate.open()
                self.digest_at_end(launch, "still", [worker])

    def test_the_optimizer_s_state_is_that_of_the_version(self):
        script = self.lines(
            "reader = capstan.Reader(sys.argv[1])",
            "version = reader.pull(optimizer_state=True)",
            "print(reader.state_names, list(version.weights), reader.tensors[0].shape)",
            "print(sorted(version.state), (np.asarray(version.state['exp_avg_sq']['weight']) >= 0).all())",
            "print(reader.progress(10).state, reader.pull(10**9, seconds=0.1))")
        with self.job("state", 1) as launch:
            address = self.address(launch)
            with self.python(script, address) as reader, self.gate(self.STEPS // 2) as gate, \
                    self.worker(address, "a") as worker:
                self.assertEqual(reader.wait(), 0, reader.output)
                gate.open()
                self.digest_at_end(launch, "state", [worker])
        self.assertEqual(reader.lines[:2], ["('exp_avg', 'exp_avg_sq') ['weight', 'bias'] (20, 5)",
                                            "['exp_avg', 'exp_avg_sq'] True"])
        self.assertRegex(reader.lines[2], "^Timeout: waited for")

    def test_wrong_uses_end_in_an_exception_of_their_kind(self):
        script = self.lines("reader = capstan.Reader(sys.argv[1], join_seconds=2)", "reader.close()", "reader.pull()")
        with self.job("wrong", 1) as launch, self.python(script, self.address(launch)) as reader:
            self.assertEqual(reader.wait(), 0, reader.output)
            self.assertRegex(reader.output, "^Invalid: the reader is closed")
        with self.python(script, harness.free_address()) as reader:
            self.assertEqual(reader.wait(), 0, reader.output)
            self.assertRegex(reader.output, "^Unreachable: no answer from the coordinator")


if __name__ == "__main__":
    skips.main("numpy")
