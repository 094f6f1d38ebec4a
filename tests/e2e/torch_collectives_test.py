#!/usr/bin/python3
"""Collective calls from PyTorch: a communication hook for DDP, and a trainer's averages between steps."""
import os
import sys

import harness
import skips

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_collectives_script.py")
JOB = f"""\
[job]
name = "torch"
steps = {{steps}}
global_batch = 4
slots = 2

[model]
kind = "client"

[optimizer]
kind = "sgd"
{{lr}}

[cluster]
servers = 1
workers = 2

[limits]
join = {harness.DEADLINE}
"""


class TorchCollectivesTest(harness.JobTest):
    def outputs(self, *how, steps, lr=""):
        job = self.write("job.toml", JOB.format(steps=steps, lr=lr))
        with self.launch(job, "--", sys.executable, "-B", SCRIPT, *how) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        for name in ("worker-0", "worker-1"):
            with open(self.path("run", "logs", f"{name}.log"), encoding="utf-8") as file:
                yield file.read()

    def test_the_hook_has_the_bits_of_ddp_s_own_reduction(self):
        for output in self.outputs("hook", self.path("meeting"), steps=1, lr="lr = 0.1"):
            self.assertIn("the hook has the bits of DDP", output)
            self.assertIn("register_comm_hook(state, capstan.torch.reduce_hook) with a str: give a capstan client", output)

    def test_a_trainer_averages_metrics_of_all_processes(self):
        for output in self.outputs("trainer", steps=4):
            self.assertIn("before {'accuracy': 0.375}", output)
            self.assertIn("all is right", output)


if __name__ == "__main__":
    skips.main("torch")
