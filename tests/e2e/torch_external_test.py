#!/usr/bin/python3
"""PyTorch scripts in jobs with [optimizer] kind = "external": any optimizer has the losses of plain PyTorch, and the same
bits for any number of processes, also if one is killed."""
import json
import os
import signal

import harness
import own_workers
import skips

TRAINING = os.path.join(own_workers.HERE, "torch_external_training.py")
STEPS = 60
# What a script is refused, by the name of what it gave.
REFUSED = {
    "an optimizer whose step() needs a closure": ("torch.optim.LBFGS(model.parameters())",
                                                  r"^Unsupported: LBFGS.step\(\) wants a closure"),
    "a scheduler that is not given": ("optimizer = torch.optim.Adam(model.parameters()); "
                                      "torch.optim.lr_scheduler.StepLR(optimizer, 1)",
                                      "^Invalid: the optimizer has a scheduler"),
}
# What a prepared script is refused: lines, and the error.
REFUSED_AFTER_PREPARE = {
    "a log that comes late": ("model(torch.ones(1, 3)).mean().backward(); trainer.log({'loss': (1.0, 1.0)})",
                              r"(?m)^Invalid: log\(\) comes before backward\(\)"),
    "an optimizer's old state": ("optimizer.load_state_dict(optimizer.state_dict())",
                                 "(?m)^Unsupported: the job keeps the state of optimizer and scheduler: load it before prepare"),
    "a scheduler's old state": ("scheduler.load_state_dict(scheduler.state_dict())",
                                "(?m)^Unsupported: the job keeps the state of optimizer and scheduler: load it before prepare"),
}
SCRIPT = """
import sys
import capstan, capstan.torch, torch

try:
    model = torch.nn.Linear(3, 2)
    trainer = capstan.torch.connect({coordinator!r}, {name!r}, on_notice=lambda text: None)
    optimizer = None
    {made}
    trainer.prepare(model, optimizer{more})
    {lines}
except capstan.Error as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""


class TorchExternalTest(own_workers.ExternalJobsTest):
    STEPS = STEPS
    BATCH, SLOTS = 64, 2
    IMPORTED = ("numpy", "torch", "torch.utils.data", "capstan.torch")

    def train(self, coordinator, name, **setup):
        setup = {"seed": 5, "batch": 32, "optimizer": "factored", "coordinator": coordinator, "name": name, **setup}
        return self.python(TRAINING, "capstan", json.dumps(setup))

    def undisturbed(self):
        return self.once("undisturbed", lambda: self.digest_of_one(self.train))

    def test_each_optimizer_has_the_losses_of_pytorch_alone(self):
        for run, setup in {"rprop": {"batch": 64}, "adam": {"batch": 64, "norm": True}, "factored": {"batch": 64, "explicit": True},
                           "pieces": {"batch": 20}, "explicit-pieces": {"batch": 20, "explicit": True},
                           "epochs": {"batch": 64, "per_epoch": True}}.items():
            with self.subTest(run):
                optimizer = run
                setup = {"optimizer": run if run in ("rprop", "adam") else "factored", **setup}
                with self.job(run, 1, "job.slots=1") as launch, self.train(self.address(launch), "a", **setup) as worker:
                    self.digest_at_end(launch, run, [worker])
                with self.python(TRAINING, "plain", json.dumps({**setup, "seed": 5, "job_seed": 1, "steps": STEPS,
                                                                "global_batch": 64})) as process:
                    self.assertEqual(process.wait(), 0, process.output)
                    wanted = json.loads(process.lines[-1])
                got = [record["loss"] for record in self.metrics(optimizer)]
                self.assertEqual(len(got), len(wanted))
                worst = max(abs(a - b) for a, b in zip(got, wanted))
                print(f"{optimizer}: {worst:.1e} from PyTorch alone")
                self.assertLess(worst, 1e-6)
                self.assertLess(got[-1], got[0])

    def test_two_processes_have_the_bits_of_one_and_both_have_the_last_weights(self):
        with self.job("two", 2) as launch:
            with self.train(self.address(launch), "a") as a, self.train(self.address(launch), "b") as b:
                self.assertEqual(self.digest_at_end(launch, "two", [a, b]), self.undisturbed())
                self.assertEqual(a.lines[-1], b.lines[-1])

    def test_a_process_that_is_killed_and_another_in_its_place_change_no_bit(self):
        self.assertEqual(self.digest_with_a_killed_worker(self.train), self.undisturbed())

    def test_the_only_process_is_killed_and_started_again(self):
        with self.gate_in_mid_run() as held, self.job("alone", 1) as launch:
            address = self.address(launch)
            with self.train(address, "a") as a:
                self.kill_in_mid_run(a.pid, "alone")
                a.wait()
            with self.train(address, "a") as again:
                held.open()
                self.assertEqual(self.digest_at_end(launch, "alone", [again]), self.undisturbed())

    def test_what_a_job_cannot_keep_is_refused_by_name(self):
        with self.job("refused", 1) as launch:
            for index, (name, (made, said)) in enumerate(REFUSED.items()):
                with self.subTest(name):
                    made = made if made.startswith("optimizer") else f"optimizer = {made}"
                    self.assert_refused(launch, f"w{index}", made, "", said)

    def test_what_comes_too_late_is_refused_by_name(self):
        made = ("optimizer = torch.optim.Adam(model.parameters()); "
                "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)")
        for index, (name, (lines, said)) in enumerate(REFUSED_AFTER_PREPARE.items()):
            with self.subTest(name), self.job(f"late{index}", 1) as launch:
                self.assert_refused(launch, "w", made, lines, said)

    def assert_refused(self, launch, name, made, lines, said):
        prepared = ", scheduler" if "scheduler =" in made else ""
        text = SCRIPT.format(coordinator=self.address(launch), name=name, made=made, lines=lines, more=prepared)
        with self.python(self.write("refused.py", text)) as process:
            self.assertEqual(process.wait(), 0, process.output)
            self.assertRegex(process.output, said)


if __name__ == "__main__":
    skips.main("torch")
