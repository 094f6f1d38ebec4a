#!/usr/bin/python3
"""A PyTorch script as a worker: the loss curve of plain PyTorch and of its DDP, the same bits for any number of processes,
and a typed error for each wrong use."""
import difflib
import hashlib
import json
import os
import re
import sys

import harness
import own_workers
import skips
import two_machines

HERE = os.path.dirname(os.path.abspath(__file__))
TRAINING = os.path.join(HERE, "torch_training.py")
STEPS = 100
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "adagrad")
# Kinds and options that are compared with clipping only, each with its settings of the job file.
MORE_OPTIMIZERS = {
    "momentum-dampening": {}, "adam-amsgrad": {"optimizer.amsgrad": "true"},
    "adamw-amsgrad": {"optimizer.amsgrad": "true"}, "adagrad-decay": {}, "rmsprop": {},
    "rmsprop-centered": {"optimizer.centered": "true", "optimizer.momentum": "0.9"},
    "adadelta": {}, "adamax": {}, "nadam": {}, "radam": {},
}


class TorchJobTest(own_workers.OwnWorkersTest):
    EXAMPLE = "pytorch"
    IMPORTED = ("numpy", "torch", "torch.utils.data", "capstan.torch")

    def reference(self, how, **setup):
        """Returns the losses of PyTorch alone or of its DDP."""
        with self.python(TRAINING, how, json.dumps(setup)) as process:
            self.assertEqual(process.wait(), 0, process.output)
            return json.loads(process.lines[-1])

    def training_job(self, run, optimizer, *, workers=1, slots=2, clip_norm=0.0, steps=STEPS, global_batch=64,
                     precision="fp32", on_nonfinite="stop"):
        settings = {"job.on_nonfinite": f'"{on_nonfinite}"', "job.steps": steps, "job.global_batch": global_batch, "job.slots": slots,
                    "optimizer.kind": f'"{optimizer.partition("-")[0]}"', "optimizer.clip_norm": clip_norm,
                    **MORE_OPTIMIZERS.get(optimizer, {}),
                    "worker.precision": f'"{precision}"', "cluster.workers": workers, "limits.lease": 2,
                    "limits.join": 300}
        return self.launch(os.path.join(own_workers.EXAMPLES, "pytorch", "digits.toml"),
                           *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")), run=run)

    def train(self, launch, name="a", **setup):
        setup = {"seed": 5, "batch": 32, "coordinator": self.address(launch), "name": name, **setup}
        return self.python(TRAINING, "capstan", json.dumps(setup))

    def script_of(self, coordinator, lines, worker):
        """Writes the script of a worker that runs these lines, and returns its path."""
        return self.write("worker.py", SCRIPT.format(folder=HERE, coordinator=coordinator, name=worker,
                                                     lines="\n".join("        " + line for line in lines)))

    def said_by(self, coordinator, lines, worker="w"):
        """Runs these lines in a worker, and returns its output."""
        with self.python(self.script_of(coordinator, lines, worker)) as process:
            self.assertEqual(process.wait(), 0, process.output)
            return process.output

    def losses(self, run):
        return [record["loss"] for record in self.metrics(run)]

    def assert_near(self, got, wanted, tolerance, learning=True):
        self.assertEqual(len(got), len(wanted))
        worst = max(range(len(got)), key=lambda i: abs(got[i] - wanted[i]) / max(1.0, wanted[i]))
        difference = abs(got[worst] - wanted[worst]) / max(1.0, wanted[worst])
        self.assertLessEqual(difference, tolerance, f"step {worst}: {got[worst]}, wanted {wanted[worst]}")
        if learning:
            self.assertLess(wanted[-1], wanted[0], "nothing was learned")
        return difference


class LossCurveTest(TorchJobTest):
    def test_one_process_has_the_losses_of_pytorch_alone(self):
        for optimizer in OPTIMIZERS:
            for clip_norm in (0.0, 0.3):
                with self.subTest(optimizer=optimizer, clip_norm=clip_norm):
                    run = f"{optimizer}-{clip_norm}"
                    with self.training_job(run, optimizer, clip_norm=clip_norm) as launch:
                        with self.train(launch, optimizer=optimizer) as worker:
                            self.digest_at_end(launch, run, [worker])
                    wanted = self.reference("plain", seed=5, job_seed=1, optimizer=optimizer, steps=STEPS,
                                            global_batch=64, clip_norm=clip_norm)
                    print(f"{run}: {self.assert_near(self.losses(run), wanted, 1e-5):.1e} from PyTorch alone")

    def test_more_optimizers_and_options_have_the_losses_of_pytorch_alone(self):
        for optimizer in MORE_OPTIMIZERS:
            with self.subTest(optimizer):
                with self.training_job(optimizer, optimizer, clip_norm=0.3) as launch, \
                        self.train(launch, optimizer=optimizer) as worker:
                    self.digest_at_end(launch, optimizer, [worker])
                wanted = self.reference("plain", seed=5, job_seed=1, optimizer=optimizer, steps=STEPS,
                                        global_batch=64, clip_norm=0.3)
                print(f"{optimizer}: {self.assert_near(self.losses(optimizer), wanted, 1e-5):.1e} from PyTorch alone")

    def test_two_processes_have_the_losses_of_ddp(self):
        with self.training_job("two", "adamw", workers=2) as launch:
            with self.train(launch, optimizer="adamw") as a, self.train(launch, "b", optimizer="adamw") as b:
                self.digest_at_end(launch, "two", [a, b])
        wanted = self.reference("ddp", seed=5, job_seed=1, optimizer="adamw", steps=STEPS, global_batch=64,
                                clip_norm=0.0, rendezvous=self.path("rendezvous"))
        print(f"two processes: {self.assert_near(self.losses('two'), wanted, 1e-4):.1e} from DDP")

    def test_what_was_trained_goes_on_in_pytorch_alone(self):
        """The script saves weights and optimizer state after the job's end; PyTorch alone loads them and continues."""
        half = STEPS // 2
        for optimizer in ("momentum", "adam", "adagrad", "rmsprop-centered", "adamw-amsgrad", "nadam", "adadelta"):
            run, saved = f"half-{optimizer}", self.path(f"{optimizer}.pt")
            with self.training_job(run, optimizer, steps=half) as launch, \
                    self.train(launch, optimizer=optimizer, save=saved) as worker:
                self.digest_at_end(launch, run, [worker])
            setup = {"seed": 5, "job_seed": 1, "optimizer": optimizer, "steps": STEPS, "global_batch": 64, "clip_norm": 0}
            wanted = self.reference("plain", **setup)[half:]
            got = self.reference("plain", **{**setup, "seed": 6, "from": saved, "first": half})
            with self.subTest(optimizer):
                self.assert_near(got, wanted, 1e-5, learning=False)

    def test_a_slot_in_pieces_is_the_slot(self):
        for batch in (8, 20, 32):
            with self.training_job(f"by-{batch}", "adamw") as launch, \
                    self.train(launch, optimizer="adamw", batch=batch) as worker:
                self.digest_at_end(launch, f"by-{batch}", [worker])
        for batch in (8, 20):
            self.assert_near(self.losses(f"by-{batch}"), self.losses("by-32"), 1e-5)
        with self.training_job("model", "adamw") as launch, \
                self.train(launch, optimizer="adamw", batch=8, zero="model") as worker:
            self.digest_at_end(launch, "model", [worker])
        self.assertEqual(self.losses("model"), self.losses("by-8"), "model.zero_grad() lost gradients of pieces")

    def test_slots_without_samples_are_passed_over(self):
        """At the end of each epoch, and so at the end of the job, one sample is left for four slots."""
        with self.training_job("ragged", "adamw", slots=4, steps=36, global_batch=29) as launch, \
                self.train(launch, optimizer="adamw") as worker:
            self.digest_at_end(launch, "ragged", [worker])
        self.assertNotIn("last weights", worker.output)
        wanted = self.reference("plain", seed=5, job_seed=1, optimizer="adamw", steps=36, global_batch=29, clip_norm=0)
        self.assert_near(self.losses("ragged"), wanted, 1e-5, learning=False)
        with self.training_job("few", "adamw", slots=4, steps=36, workers=2, global_batch=29) as launch, \
                self.train(launch, optimizer="adamw") as a, self.train(launch, "b", optimizer="adamw") as b:
            self.digest_at_end(launch, "few", [a, b])
        self.assertNotIn("last weights", a.output + b.output)
        self.assert_near(self.losses("few"), wanted, 1e-5, learning=False)

    def test_loaders_of_their_own_processes_change_no_bit(self):
        digests = set()
        for loaders in (0, 2):
            with self.training_job(f"loaders-{loaders}", "sgd", steps=20) as launch, \
                    self.train(launch, optimizer="sgd", loaders=loaders, noisy=True) as worker:
                digests.add(self.digest_at_end(launch, f"loaders-{loaders}", [worker]))
        self.assertEqual(len(digests), 1)


class PlanTest(TorchJobTest):
    def test_an_epoch_has_each_sample_once_in_an_order_of_its_own(self):
        lines = ["from capstan.torch.batches import Plan",
                 "from capstan.torch.orders import shuffled",
                 "plan = Plan(shuffled(10, 1), samples=10, global_batch=4, slots=2, batch=2, drop_last=False)",
                 "epochs = [[s for step in range(3 * e, 3 * e + 3) for slot in range(2) for p in plan.pieces(step, slot)",
                 "           for s in p.samples] for e in range(2)]",
                 "print([sorted(e) == list(range(10)) for e in epochs], epochs[0] != epochs[1])"]
        with self.python("-c", "\n".join(lines)) as process:
            self.assertEqual(process.wait(), 0, process.output)
            self.assertEqual(process.output, "[True, True] True")


# A worker that prints the exception by which its lines ended.
SCRIPT = """
import contextlib, sys
sys.path.insert(0, {folder!r})
import capstan.torch, torch
import torch_training as training
from torch.utils.data import DataLoader

def prepare(trainer, model=None, name="adamw", loader=True, batch=32, **options):
    model = training.network(5) if model is None else model
    kind = options.pop("kind", training.OPTIMIZERS[name][0])
    options = {{**training.OPTIMIZERS[name][1], **options}}
    loader = DataLoader(training.data(), batch_size=batch, shuffle=True) if loader else None
    return trainer.prepare(model, kind(model.parameters(), **options), loader)

def step(trainer, model, x, y, samples=None):
    trainer.backward(torch.nn.functional.mse_loss(model(x), y), samples)
    return trainer.step()

try:
    with capstan.torch.connect({coordinator!r}, {name!r}, join_seconds=2, on_notice=lambda text: None) as trainer:
        pass
{lines}
except capstan.Error as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""
# Mistakes of scripts, and the answer to each. None of these scripts takes part in the job.
WRONG_USES = {
    "an optimizer that the servers do not run": (["prepare(trainer, kind=torch.optim.Rprop, name='sgd')"],
                                                 '^Unsupported: .*Rprop.*AdamW.*RAdam.*optimizer.kind = "external"'),
    "another optimizer than the job's": (["prepare(trainer, name='adam')"], '^Invalid: .*Adam.*"adamw".*"adam"'),
    # As AdamW derives from Adam in newer torch: the nearest class decides.
    "an optimizer that derives from another": (
        ["from capstan.torch import rules", "class Derived(torch.optim.Adam): pass",
         "rules._RULES[Derived] = rules._RULES[torch.optim.Adagrad]", "prepare(trainer, name='adam', kind=Derived)"],
        '^Invalid: .*Derived.*"adamw".*"adagrad"'),
    "an option that the job file does not have": (
        ["prepare(trainer, amsgrad=True)"],
        "^Invalid: AdamW, group 0 has amsgrad=True.*optimizer.amsgrad = false.*set it to true in the job file"),
    "an option that torch ignores in a group": (
        ["from capstan.torch.rules import rule_of", "optimizer = torch.optim.Adagrad([{'params': "
         "training.network(5).parameters(), 'initial_accumulator_value': 0.3}])", "rule_of(optimizer, {'kind': 'adagrad'})"],
        r"^Unsupported: Adagrad, group 0, has initial_accumulator_value=0.3.*write Adagrad\(..., "
        r"initial_accumulator_value=0\)"),
    "a momentum that the servers do not keep": (
        ["from capstan.torch.rules import rule_of", "optimizer = torch.optim.RMSprop(training.network(5).parameters(), "
         "momentum=0.9)", "rule_of(optimizer, {'kind': 'rmsprop', 'centered': False, 'momentum': 0.0})"],
        "^Invalid: RMSprop, group 0 has momentum=0.9.*set optimizer.momentum = 0.9 in the job file"),
    "a parameter in no group": (["model = training.network(5)", "trainer.prepare(model, torch.optim.AdamW(model[0].parameters()))"],
                                '^Invalid: .*"2.weight"'),
    "a parameter of another model": (["model = training.network(5)",
                                      "trainer.prepare(model[0], torch.optim.AdamW(model.parameters()))"],
                                     "^Invalid: .*4 parameters that are not the model's"),
    "a parameter of another type": (["prepare(trainer, training.network(5).double())"], '^Unsupported: .*"0.weight".*float64'),
    "a parameter without elements": (
        ["model = training.network(5)", "model.empty = torch.nn.Parameter(torch.zeros(0, 3))", "prepare(trainer, model)"],
        r'^Invalid: tensor "empty": .*\(0, 3\)'),
    "a parameter with gaps in its memory": (
        ["model = training.network(5)", "model[0].weight.data = torch.zeros(24, 24)[:, :12]", "prepare(trainer, model)"],
        r'^Unsupported: .*"0.weight" has gaps.*model\[0\].weight.data = model\[0\].weight.detach\(\).contiguous\(\)'),
    "a step before prepare": (["trainer.step()"], r"^Invalid: .*prepare\(model, optimizer\) comes first"),
    "a scheduler that measures": (
        ["model = training.network(5)", "optimizer = torch.optim.AdamW(model.parameters())",
         "trainer.prepare(model, optimizer, None, torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer))"],
        "^Unsupported: .*ReduceLROnPlateau"),
    "a scheduler that measures, in another one": (
        ["model = training.network(5)", "optimizer = torch.optim.AdamW(model.parameters())",
         "from torch.optim import lr_scheduler as s",
         "both = s.SequentialLR(optimizer, [s.LinearLR(optimizer), s.LinearLR(optimizer)], [5])",
         "both._schedulers[1] = s.ReduceLROnPlateau(optimizer)",  # newer torch refuses it as an argument
         "trainer.prepare(model, optimizer, None, both)"],
        "^Unsupported: .*ReduceLROnPlateau.*steps by itself"),
    "a scheduler of the script's that wants a metric": (
        ["model = training.network(5)", "optimizer = torch.optim.AdamW(model.parameters())",
         "class Halves(torch.optim.lr_scheduler.LambdaLR):", "    def step(self, loss=0.0, *, best): pass",
         "scheduler = Halves.__new__(Halves)", "trainer.prepare(model, optimizer, None, scheduler)"],
        r"^Unsupported: Halves.step\(\) wants best.*steps by itself"),
    "a scheduler without a state": (
        ["model = training.network(5)", "optimizer = torch.optim.AdamW(model.parameters())",
         "class Halves:", "    def step(self): optimizer.param_groups[0]['lr'] *= 0.5",
         "trainer.prepare(model, optimizer, None, Halves())"], r"^Unsupported: Halves has no state_dict\(\).*LambdaLR"),
    "a scheduler whose state cannot be kept": (
        ["model = training.network(5)", "optimizer = torch.optim.AdamW(model.parameters())",
         "class Rates:", "    def __init__(self): self.rates = (0.9**k for k in range(1000))",
         "    def __call__(self, step): return next(self.rates)",
         "trainer.prepare(model, optimizer, None, torch.optim.lr_scheduler.LambdaLR(optimizer, Rates()))"],
        r"^Unsupported: LambdaLR.state_dict\(\)\['lr_lambdas'\]\[0\]\['rates'\] is of builtins.generator.*float\(\)"),
    "a scheduler that is kept back": (
        ["model = training.network(5)", "optimizer = torch.optim.AdamW(model.parameters())",
         "torch.optim.lr_scheduler.StepLR(optimizer, 1)", "trainer.prepare(model, optimizer)"],
        r"^Invalid: .*scheduler.*give it to prepare\(\)"),
    "a scheduler of another optimizer": (
        ["model = training.network(5)", "one, two = (torch.optim.AdamW(model.parameters()) for _ in range(2))",
         "trainer.prepare(model, one, None, torch.optim.lr_scheduler.StepLR(two, 1))"], "^Invalid: .*another optimizer's"),
}
# Mistakes of workers that are in the job, and the answer to each. The first of them declares the job's tensors.
WRONG_STEPS = {
    "a backward that is missing": (["model, optimizer, loader = prepare(trainer)", "batches = iter(loader)", "next(batches)", "next(batches)"],
                                   r"^Invalid: .*backward\(\) and step\(\)"),
    "a parameter without a gradient": (["model, optimizer, loader = prepare(trainer)", "x, y = next(iter(loader))",
                                        "trainer.backward(torch.nn.functional.mse_loss(model[4](model[1](model[0](x))), y))"],
                                       '^Invalid: .*"2.weight" has no gradient'),
    "a gradient that is left over": (["model, optimizer, loader = prepare(trainer)",
                                      "model[0].weight.grad = torch.zeros_like(model[0].weight)", "step(trainer, model, *next(iter(loader)))"],
                                     r'^Invalid: .*"0.weight" has a gradient already.*zero_grad\(\)'),
    "a backward that failed": (
        ["model, optimizer, loader = prepare(trainer)", "x, y = next(iter(loader))",
         "class Fails(torch.autograd.Function):",
         "    forward = staticmethod(lambda ctx, x: x.clone())",
         "    backward = staticmethod(lambda ctx, g: (_ for _ in ()).throw(RuntimeError('out of memory')))",
         "try: trainer.backward(torch.nn.functional.mse_loss(model[2:](Fails.apply(model[:2](x))), y))",
         "except RuntimeError: optimizer.zero_grad()", "step(trainer, model, x, y)"],
        r"^Invalid: backward\(\) was left by an exception"),
    "a step after a failed backward": (
        ["model, optimizer, loader = prepare(trainer)", "x, y = next(iter(loader))",
         "try: trainer.backward(model(x))", "except RuntimeError: optimizer.step()"],
        r"^Invalid: backward\(\) was left by an exception"),
    "two losses of a batch": (
        ["model, optimizer, loader = prepare(trainer)", "x, y = next(iter(loader))",
         "for _ in range(2): trainer.backward(torch.nn.functional.mse_loss(model(x), y))"], "^Invalid: .*add the losses"),
    "two steps of a batch": (
        ["model, optimizer, loader = prepare(trainer)", "x, y = next(iter(loader))",
         "for _ in range(2): step(trainer, model, x, y)"], "^Invalid: .*once for each batch"),
    "a parameter of two checkpointed segments": (
        ["model, optimizer, loader = prepare(trainer)", "x, y = next(iter(loader))", "x = x.requires_grad_()",
         "from torch.utils.checkpoint import checkpoint",
         "twice = lambda h: checkpoint(model[2:4], checkpoint(model[2:4], h, use_reentrant=True), use_reentrant=True)",
         "trainer.backward(torch.nn.functional.mse_loss(model[4](twice(model[:2](x))), y))"],
        '^Invalid: .*"2.(weight|bias)" has a second gradient.*use_reentrant=False'),
    "a group that comes later": (
        ["model, optimizer, loader = prepare(trainer)", "optimizer.add_param_group({'params': [torch.nn.Parameter(torch.ones(1))]})"],
        "^Unsupported: .*groups are declared"),
    "another batch size": (["prepare(trainer, batch=16)"], "^Refused: .*other data"),
    "state from elsewhere": (["model, optimizer, loader = prepare(trainer)", "optimizer.load_state_dict({})"],
                             "^Unsupported: .*--resume"),
    "another shape": (["prepare(trainer, torch.nn.Linear(12, 1))"], "^Refused: .*tensor 0 differs"),
    "another optimizer group": (["model = training.network(5)", "prepare(trainer, model, kind=lambda p, **o: training.optimizer_of('adamw', model))"],
                                "^Refused: .*group"),
    "frozen values of its own": (["model = training.network(5)", "model.register_buffer('mean', torch.ones(2))", "prepare(trainer, model)"],
                                 "^Refused: .*other data"),
}

# Mistakes of workers whose slot comes in several pieces, and the answer to each.
WRONG_PIECES = {
    "a last piece without backward": (
        ["for index, (x, y) in enumerate(loader):",
         "    if index % 4 != 3: trainer.backward(torch.nn.functional.mse_loss(model(x), y))", "    optimizer.step()"],
        r"^Invalid: optimizer.step\(\) comes after loss.backward\(\)"),
    "a piece without backward": (
        ["for index, (x, y) in enumerate(loader):", "    if index != 1: step(trainer, model, x, y)"],
        r"^Invalid: .*backward\(\) and step\(\)"),
    "two losses of a piece": (
        ["x, y = next(iter(loader))",
         "for _ in range(2): trainer.backward(torch.nn.functional.mse_loss(model(x), y))"], "^Invalid: .*add the losses"),
}


class WrongUseTest(TorchJobTest):
    def test_wrong_uses_end_in_an_exception_of_their_kind(self):
        with self.training_job("wrong", "adamw", slots=2, steps=1000) as launch:
            address = self.address(launch)
            for index, (name, (lines, said)) in enumerate((WRONG_USES | WRONG_STEPS).items()):
                with self.subTest(name):
                    self.assertRegex(self.said_by(address, lines, f"w{index}").splitlines()[-1], said)

    def test_wrong_uses_of_pieces(self):
        with self.training_job("pieces", "adamw", slots=2, steps=1000) as launch:
            address = self.address(launch)
            for index, (name, (lines, said)) in enumerate(WRONG_PIECES.items()):
                lines = ["model, optimizer, loader = prepare(trainer, batch=8)", *lines]
                with self.subTest(name):
                    self.assertRegex(self.said_by(address, lines, f"w{index}").splitlines()[-1], said)

    def test_without_a_coordinator_nothing_is_trained(self):
        self.assertRegex(self.said_by(harness.free_address(), []), "^Unreachable: no answer")
        self.assertRegex(self.said_by("", []), "^Invalid: no coordinator is named")


class OwnLoopTest(TorchJobTest):
    """Scripts with a loop over slots instead of a prepared loader."""

    SLOTS = ["model, optimizer = prepare(trainer, loader=False)", "data = training.data()",
             "for slot in trainer.slots():",
             "    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(slot.key[1] * 100 + slot.key[2]))",
             "    x, y = data[order[:32].tolist()]"]
    WHOLE = SLOTS + ["    step(trainer, model, x, y, 32)"]
    PIECES = SLOTS + ["    with trainer.accumulate(32):",
                      "        for part in (slice(0, 20), slice(20, 32)):",
                      "            trainer.backward(torch.nn.functional.mse_loss(model(x[part]), y[part]), len(y[part]))",
                      "    optimizer.step()"]

    def test_slots_and_pieces_of_them(self):
        for run, lines in (("whole", self.WHOLE), ("pieces", self.PIECES)):
            with self.training_job(run, "adamw", steps=40) as launch:
                self.assertEqual(self.said_by(self.address(launch), lines).splitlines()[1:], [])
                self.digest_at_end(launch, run, [])
        self.assert_near(self.losses("pieces"), self.losses("whole"), 1e-5)

    def test_metrics_and_learning_rate_are_those_of_the_script(self):
        """The sums and weights of a metric are added up over a slot's pieces. The job file has another learning rate."""
        lines = [*self.PIECES[:-1], "            trainer.log({'size': (len(y[part]), 1), 'rows': (torch.tensor(32.0), 32)})",
                 "    optimizer.step()", "    if slot.key[1] == 0: trainer.barrier(20)"]
        with self.training_job("logged", "adamw", steps=3) as launch:
            said = self.said_by(self.address(launch), [*lines, "trainer.log({'late': (1, 1)})"])
            self.digest_at_end(launch, "logged", [])
        self.assertRegex(said.splitlines()[-1], r"^Invalid: log\(\) comes between backward\(\) and step\(\)")
        self.assertEqual([record["metrics"] for record in self.metrics("logged")], [{"rows": 1.0, "size": 16.0}] * 3)
        self.assertEqual({record["lr"] for record in self.metrics("logged")}, {0.01})  # torch_training.py's

    def test_a_loss_is_over_samples(self):
        lines = ["model, optimizer = prepare(trainer, loader=False)", "x, y = training.data()[:4]"]
        wrong = {"step(trainer, model, x, y)": r"^Invalid: .*samples=\.\.\.",
                 "step(trainer, model, x, y, 0)": r"^Invalid: .*samples=\.\.\.",
                 "[trainer.backward(model(x).mean(), 4) for _ in range(2)]": r"^Invalid: .*accumulate\(samples\)",
                 "with contextlib.suppress(RuntimeError), trainer.accumulate(4): raise RuntimeError\n        trainer.step()":
                     "^Invalid: .*left by an exception"}
        with self.training_job("samples", "adamw", steps=1000) as launch:
            address = self.address(launch)
            for index, (line, said) in enumerate(wrong.items()):
                self.assertRegex(self.said_by(address, [*lines, line], f"w{index}").splitlines()[-1], said)

    def said_when_a_server_is_killed(self, run, lines):
        """Runs these lines in a worker of an endless job, kills a server meanwhile, and returns the worker's output."""
        with self.training_job(run, "adamw", steps=own_workers.ENDLESS) as launch:
            with self.python(self.script_of(self.address(launch), lines, "w")) as process:
                self.wait_for_steps(run, own_workers.KILL_AFTER)
                harness.kill(self.pids(run)["server-0"])
                self.assertEqual(process.wait(), 0, process.output)
                return process.output

    def test_a_loop_that_cannot_go_back_is_told_to(self):
        lines = ["model, optimizer = prepare(trainer, loader=False)", "x, y = training.data()[:32]",
                 "while not trainer.done:", "    step(trainer, model, x, y, 32)"]
        output = self.said_when_a_server_is_killed("lost", lines)
        self.assertIn("not replayable", output)
        self.assertRegex(output.splitlines()[-1], "^Rewound: the job went back to step 0")

    def test_a_scheduler_that_cannot_be_begun_again_is_refused_where_the_job_goes_back(self):
        lines = ["model = training.network(5)", "optimizer, rates = torch.optim.AdamW(model.parameters()), []",
                 "scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: rates.append(k) or 0.99**len(rates))",
                 "loader = DataLoader(training.data(), batch_size=32)",
                 "model, optimizer, loader, scheduler = trainer.prepare(model, optimizer, loader, scheduler)",
                 "for _ in trainer.epochs():", "    for x, y in loader:", "        step(trainer, model, x, y)",
                 "        scheduler.step()"]
        self.assertRegex(self.said_when_a_server_is_killed("hidden", lines).splitlines()[-1],
                         r"^Unsupported: LambdaLR, stepped 1 times, gives other numbers .*Start the process again")

    def test_the_loss_scale_is_the_coordinator_s(self):
        lines = ["model, optimizer = prepare(trainer, loader=False, name='sgd')", "scaler = capstan.torch.GradScaler(trainer)",
                 "data, scales = training.data(), {}", "for slot in trainer.slots():",
                 "    x, y = data[slot.index * 32:(slot.index + 1) * 32]",
                 "    loss = torch.nn.functional.mse_loss(model(x), y)",
                 "    scales[slot.key[1]] = scaler.get_scale()",
                 "    if slot.key[1:] == (3, 1): loss = loss * float('inf')",
                 "    trainer.backward(scaler.scale(loss), 32)", "    scaler.step(optimizer)", "    scaler.update()",
                 "print(scales)"]
        with self.training_job("scaled", "sgd", steps=6, precision="fp16") as launch:
            said = self.said_by(self.address(launch), lines).splitlines()[-1]
            self.digest_at_end(launch, "scaled", [])
        self.assertLess(self.losses("scaled")[2], 0.99 * self.losses("scaled")[0], "gradients were not of the scaled loss")
        self.assertEqual(said, str({step: 65536.0 if step < 4 else 32768.0 for step in range(6)}))
        self.assertEqual([record["action"] for record in self.metrics("scaled")], ["apply"] * 3 + ["skip"] + ["apply"] * 2)


class ExampleTest(TorchJobTest):
    """The example scripts, with their dropout."""

    STEPS = 120  # the five epochs of the script

    def job(self, run, workers):
        """Launches a job that has four slots for any number of processes."""
        settings = [f"cluster.workers={workers}", "job.slots=4", f"limits.lease={harness.patient(2)}",
                    f"limits.join={harness.DEADLINE}", f"job.steps={self.STEPS}"]
        return self.launch(os.path.join(own_workers.EXAMPLES, "pytorch", "digits.toml"),
                           *(word for setting in settings for word in ("--set", setting)), run=run)

    def digits(self, python):
        return lambda coordinator, name: python(os.path.join(own_workers.EXAMPLES, "pytorch", "digits_capstan.py"),
                                                CAPSTAN_COORDINATOR=coordinator, CAPSTAN_WORKER=name)

    def test_two_processes_give_the_bits_of_one_and_learn(self):
        """The one process is a new Python, as users start it; the two are forked from one that has imported the modules."""
        with self.job("one", 1) as launch, self.digits(self.new_python)(self.address(launch), "a") as worker:
            one = self.digest_at_end(launch, "one", [worker])
            right = float(worker.output.split("held out: ")[1].split()[0])
        self.assertGreater(right, 85)
        digits = self.digits(self.python)
        self.assertEqual(self.digest_of_two(digits), one)
        self.assertEqual(self.digest_with_a_killed_server(digits), one, "steps that are done again drop other numbers")

    def test_processes_on_another_machine_with_keys_end_with_the_same_bits(self):
        two_machines.need(self)
        known = self.digest_of_one(self.digits(self.python))
        script = os.path.join(own_workers.EXAMPLES, "pytorch", "digits_capstan.py")
        with two_machines.TwoMachines(self.path("machines")) as machines:
            head = machines.job(os.path.join(own_workers.EXAMPLES, "pytorch", "digits.toml"), "cluster.workers=2", "job.slots=4",
                                f"limits.join={harness.DEADLINE}")
            workers = [machines.program(name, sys.executable, "-B", script, **own_workers.environment()) for name in ("a", "b")]
            for process in (*workers, *head):
                self.assertEqual(process.wait(), 0, process.output)
            with open(machines.path(two_machines.HEAD, "run", "final.safetensors"), "rb") as file:
                self.assertEqual(hashlib.sha256(file.read()).hexdigest(), known)

    def test_they_are_the_plain_scripts_but_for_three_lines(self):
        """README.md shows the three lines of the script for digits."""
        folder, root = os.path.join(own_workers.EXAMPLES, "pytorch"), os.path.join(HERE, "..", "..")
        with open(os.path.join(root, "README.md"), encoding="utf-8") as file:
            block = re.search(r"```diff\n(.*?)```", file.read(), re.S).group(1)
        shown = [re.sub(r"  +#.*", "", line) for line in block.splitlines() if line[:1] in "+-" and line[1:]]
        for name in ("digits", "gpt"):
            lines = []
            for script in (f"{name}.py", f"{name}_capstan.py"):
                with open(os.path.join(folder, script), encoding="utf-8") as file:
                    lines.append(file.read().splitlines())
            changed = [line for line in difflib.ndiff(*lines) if line[0] in "+-" and line[2:].strip()]
            self.assertEqual([line[0] for line in changed].count("+"), 3, changed)
            if name == "digits":
                self.assertEqual([line[0] + line[2:] for line in changed], shown)

    def test_gpt_learns(self):
        job = os.path.join(own_workers.EXAMPLES, "pytorch", "gpt.toml")
        with self.launch(job, "--set", "job.steps=60", run="gpt") as launch:
            script = os.path.join(own_workers.EXAMPLES, "pytorch", "gpt_capstan.py")
            with self.python(script, CAPSTAN_COORDINATOR=self.address(launch)) as worker:
                self.digest_at_end(launch, "gpt", [worker])
        losses = self.losses("gpt")
        self.assertLess(sum(losses[-5:]), 0.75 * sum(losses[:5]))


if __name__ == "__main__":
    skips.main("torch")
