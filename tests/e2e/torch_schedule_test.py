#!/usr/bin/python3
"""A scheduler in a PyTorch script: the same numbers as in PyTorch without capstan after as many steps, and its state kept
with the job's steps, whichever process dies."""
import json
import os
import signal

import harness
import own_workers
import skips
import torch_worker_test


# Prints each schedule and step for which a Schedule, moved forwards and backwards, has other numbers than PyTorch alone.
SCHEDULES = """
import io, warnings
import numpy, torch
from capstan.torch.interval import Interval
from capstan.torch.schedule import Schedule
from torch.optim import lr_scheduler as s

KINDS = {
    "OneCycleLR": lambda o: s.OneCycleLR(o, max_lr=[0.1, 0.2], total_steps=40),
    "CyclicLR": lambda o: s.CyclicLR(o, 0.01, 0.1, step_size_up=5, cycle_momentum=False),
    "SequentialLR": lambda o: s.SequentialLR(o, [s.LinearLR(o, 0.1, total_iters=5), s.CosineAnnealingLR(o, 20)], [5]),
    "ChainedScheduler": lambda o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)]),
    "LambdaLR": lambda o: s.LambdaLR(o, [lambda k: 0.9**k, lambda k: 0.8**k]),
    "MultiplicativeLR": lambda o: s.MultiplicativeLR(o, lambda k: 0.95),
    "StepLR": lambda o: s.StepLR(o, 4),
    "MultiStepLR": lambda o: s.MultiStepLR(o, [3, 3, 20]),
    "CosineAnnealingWarmRestarts": lambda o: s.CosineAnnealingWarmRestarts(o, 7, 2),
    "ReduceOnce": lambda o: s.LambdaLR(o, numpy_rate),
}

def numpy_rate(step):
    return numpy.float64(0.9) ** step

def optimizer():
    one, two = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    return torch.optim.Adam([{"params": [one]}, {"params": [two], "lr": 0.02}], lr=0.05, betas=(0.8, 0.99))

def numbers(optimizer):
    return [(group["lr"], group["betas"]) for group in optimizer.param_groups]

warnings.simplefilter("ignore")
for name, kind in KINDS.items():
    alone = optimizer()
    scheduler, wanted = kind(alone), [numbers(alone)]
    for _ in range(30):
        alone.step()
        scheduler.step()
        wanted.append(numbers(alone))
    ours = optimizer()
    scheduler = kind(ours)
    schedule = Schedule(scheduler, ours, Interval("step"))
    for step in (0, 3, 12, 5, 1, 30, 0, 7):
        schedule.go_to(step, b"")
        scheduler.step()
        if numbers(ours) != wanted[step]:
            print(name, step, numbers(ours), wanted[step])
    schedule.go_to(0, b"")
    kept = [b"", *(schedule.after() for _ in range(30))]  # what a job keeps
    another = optimizer()
    restarted = Schedule(kind(another), another, Interval("step"))
    for step in (29, 3, 12, 11, 30):
        for which, group in ((schedule, ours), (restarted, another)):
            which.go_to(step, kept[step])
            if numbers(group) != wanted[step]:
                print(name, step, "as it was kept", numbers(group), wanted[step])
            if step < 30 and which.after() != kept[step + 1]:
                print(name, step, "goes on otherwise than before")
    torch.save(scheduler.state_dict(), io.BytesIO())
"""


# Calls check_told several times for the same steps, and prints the calls that are refused. The module uses `sum` as its
# hash function, so that a hash of 0 occurs.
TOLD = """
import torch
from capstan import Unsupported
from capstan.torch import schedule as module
from capstan.torch.interval import Interval

module.hash = sum
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
schedule = module.Schedule(torch.optim.lr_scheduler.StepLR(optimizer, 4), optimizer, Interval("step"))
for step, groups in ((0, [0, 0]), (2, [5]), (1, [3]), (0, [0, 0]), (0, [0, 1]), (1, [0]), (2, [5])):
    try:
        schedule.check_told(step, groups)
    except Unsupported:
        print(step, groups)
"""


class ScheduleTest(torch_worker_test.TorchJobTest):
    def test_a_schedule_goes_to_any_step(self):
        with self.python("-c", SCHEDULES) as process:
            self.assertEqual(process.wait(), 0, process.output)
            self.assertEqual(process.output, "")

    def test_other_numbers_for_a_step_are_refused_whatever_their_hash(self):
        with self.python("-c", TOLD) as process:
            self.assertEqual(process.wait(), 0, process.output)
            self.assertEqual(process.output.splitlines(), ["0 [0, 1]", "1 [0]"])

    def test_a_skipped_step_is_no_update(self):
        """The optimizer's state in torch does not count a skipped step."""
        lines = ["model, optimizer = prepare(trainer, loader=False, name='adam')",
                 "scaler, data = capstan.torch.GradScaler(trainer), training.data()", "for slot in trainer.slots():",
                 "    x, y = data[slot.index * 32:(slot.index + 1) * 32]",
                 "    loss = torch.nn.functional.mse_loss(model(x), y)",
                 "    if slot.key[1:] == (3, 1): loss = loss * float('inf')",
                 "    trainer.backward(scaler.scale(loss), 32)", "    scaler.step(optimizer)", "    scaler.update()",
                 "print({int(state['step']) for state in optimizer.state_dict()['state'].values()})"]
        with self.training_job("skipped", "adam", steps=6, precision="fp16") as launch:
            said = self.said_by(self.address(launch), lines).splitlines()[-1]
            self.digest_at_end(launch, "skipped", [])
        self.assertEqual([record["action"] for record in self.metrics("skipped")], ["apply"] * 3 + ["skip"] + ["apply"] * 2)
        self.assertEqual(said, "{5}")


class KeptScheduleTest(torch_worker_test.TorchJobTest):
    """A scheduler whose rate depends on its state and not only on the number of steps. A process that begins later is given
    another initial state, and must have the job's."""

    STEPS = 80
    FIRST, LATER = 0.25, 0.875

    def job(self, run, workers, *more):
        settings = [f"cluster.workers={workers}", "job.slots=4", "job.global_batch=64", f"job.steps={self.STEPS}",
                    "optimizer.kind=\"adamw\"", "snapshot.every_steps=10", f"limits.lease={harness.patient(2)}",
                    f"limits.join={harness.patient(300)}", *more]
        return self.launch(os.path.join(own_workers.EXAMPLES, "pytorch", "digits.toml"),
                           *(word for setting in settings for word in ("--set", setting)), run=run)

    def worker(self, coordinator, name, begin=None):
        begin = begin or (self.FIRST if name in "ab" else self.LATER)
        setup = {"seed": 5, "batch": 16, "optimizer": "adamw", "coordinator": coordinator, "name": name, "begin": begin}
        return self.python(torch_worker_test.TRAINING, "capstan", json.dumps(setup))

    def undisturbed(self):
        return self.once("undisturbed", lambda: self.digest_of_one(self.worker))

    def test_the_bits_are_the_same_whoever_dies(self):
        one = self.undisturbed()
        with self.job("other", 1) as launch, self.worker(self.address(launch), "c") as worker:
            self.assertNotEqual(self.digest_at_end(launch, "other", [worker]), one, "the beginning makes no difference")
        self.assertEqual(self.digest_of_two(self.worker), one)
        self.assertEqual(self.digest_with_a_killed_worker(self.worker), one)
        self.assertEqual(self.digest_with_a_killed_server(self.worker), one)

    def test_the_only_worker_is_killed_and_another_goes_on(self):
        one = self.undisturbed()
        with self.gate_in_mid_run() as held, self.job("alone", 1) as launch:
            with self.worker(self.address(launch), "a") as a:
                self.kill_in_mid_run(a.pid, "alone")
                a.wait()
            held.open()
            with self.worker(self.address(launch), "c") as c:
                self.assertEqual(self.digest_at_end(launch, "alone", [c]), one)

    def test_a_resumed_job_goes_on_with_it(self):
        one = self.undisturbed()
        with self.gate_in_mid_run(), self.job("again", 1) as launch, self.worker(self.address(launch), "a") as a:
            self.kill_in_mid_run(a.pid, "again")
            launch.wait_for_line("snapshot of version")
            harness.kill(launch.pid, signal.SIGINT)
            launch.wait()
        with harness.Process(harness.program("capstan"), "launch", "--resume", "--run-dir", self.path("again"),
                             cwd=self.folder) as launch, self.worker(self.address(launch), "c") as c:
            self.assertEqual(self.digest_at_end(launch, "again", [c]), one)


if __name__ == "__main__":
    skips.main("torch")
