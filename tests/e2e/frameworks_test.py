#!/usr/bin/python3
"""Scripts of Lightning, Hugging Face's Trainer and Accelerate (tests/e2e/scripts), and the lines that make each a worker: how many
these are, the numbers that it prints beside the plain script, and the bits of two processes of which one is killed.

usage: frameworks_test.py --bin FOLDER [--newest]     by the versions for Debian's PyTorch, or by the newest; see scripts/frameworks
"""
import contextlib
import functools
import hashlib
import itertools
import os
import re
import signal
import subprocess
import sys

import forked_script
import harness
import own_workers
import real_scripts_test
import recovery
import skips
import tier

ROOT = os.path.join(own_workers.EXAMPLES, "..", "..")
MODULES = ("torch", "torch.utils.data", "lightning", "lightning.pytorch.callbacks", "transformers.trainer",
           "transformers.models.gpt2.modeling_gpt2", "accelerate", "capstan.torch", "capstan.lightning", "capstan.transformers")
Script = real_scripts_test.Script
SCRIPTS_OF = {
    "lightning_module": Script(
        ("import lightning as L\n", "import capstan.lightning\nimport lightning as L\n"),
        ('accelerator="cpu", callbacks', 'accelerator="cpu", strategy=capstan.lightning.Strategy(), callbacks')),
    "hugging_face_trainer": Script(
        ("import torch\n", "import torch\nfrom capstan.transformers import Trainer\n"),
        ("GPT2LMHeadModel, Trainer, ", "GPT2LMHeadModel, ")),
    "accelerate_loop": Script(
        ("import torch\n", "import capstan.torch\nimport torch\n"),
        ("model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)\n",
         "trainer = capstan.torch.connect()\nmodel, optimizer, loader, scheduler = trainer.prepare(\n"
         "    *accelerator.prepare(model, optimizer, loader, scheduler), accumulates=accumulate)\n"),
        ("accelerator.is_main_process", "trainer.is_main")),
}
# A launcher's notice is passed on; and a batch that comes again, at the same step, is a job that went back.
OWN_SLOT = """import types
import capstan.errors
from capstan.place import Identity
from capstan.torch import own_slot
own_slot.connect = lambda *_, **__: None
own_slot.connect_to_one(None, Identity(1, 2, notice="step rank 1 is taken"), on_notice=print)
own = object.__new__(own_slot.OwnSlot)
own._trainer = types.SimpleNamespace(global_step=3, _computing=types.SimpleNamespace(piece=None), _rounds=types.SimpleNamespace(newest=None))
own._newest, own._loop = (2, 1), "loop"
own.must_not_repeat()
own.batch_comes()
try:
    own.must_not_repeat()
except capstan.errors.Rewound as error:
    print("step again:", error)
"""
STEP_LR = "[optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]"
# Further lines that both scripts have, and how far apart their numbers may be.
VARIANTS = (
    ("lightning_module", 1e-5, [
        ("gradient_clip_val=0.5, ", 'gradient_clip_val=0.01, gradient_clip_algorithm="value", '),
        ("max_epochs=3, ", "max_epochs=3, val_check_interval=0.5, "),
        (STEP_LR, '[optimizer], [{"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.8), "interval": "step"}]')]),
    ("lightning_module", 1e-5, [
        ("max_epochs=3, ", "max_epochs=3, overfit_batches=0, fast_dev_run=0, "),
        (STEP_LR, '[optimizer], [{"interval": "step", "scheduler": torch.optim.lr_scheduler.OneCycleLR(\n            optimizer, 0.02, '
         'total_steps=self.trainer.estimated_stepping_batches, cycle_momentum=False)}]')]),
    ("lightning_module", 2e-2, [("max_epochs=3, ", 'max_epochs=3, precision="bf16-mixed", ')]),
    ("hugging_face_trainer", 1e-5, [
        ("warmup_steps=4, ", 'warmup_steps=4, lr_scheduler_type="cosine", max_grad_norm=0.0, load_best_model_at_end=True, '),
        ("save_model(", "evaluate()\ntrainer.save_model(")]),
)
CASES = tuple(itertools.product(SCRIPTS_OF, (1, 2)))  # a script, and how many batches a step has
SAMPLES = {"lightning_module": (256, 32), "hugging_face_trainer": (128, 16), "accelerate_loop": (256, 32)}  # and a batch
EPOCHS = 3
COUNTS = ("lightning_module", "hugging_face_trainer")  # their loops count the steps, and print the number
SCALED = ("hugging_face_trainer",)  # prints losses that are parts of an update's
KILLED_AT = 13  # a step in the middle of an epoch
LOSS = re.compile(r"^(?:epoch|step) .* loss (.*)$")
LINE = re.compile(r"^(epoch|step|validation) ")


def steps_of(name, accumulate):
    samples, batch = SAMPLES[name]
    return EPOCHS * samples // batch // accumulate


class FrameworksTest(real_scripts_test.LinesTest):
    NEWEST = False

    @classmethod
    @functools.cache
    def interpreter(cls):
        """The Python that has the frameworks."""
        made = subprocess.run([os.path.join(ROOT, "scripts", "frameworks"), *["--newest"] * cls.NEWEST], stdout=subprocess.PIPE, text=True,
                              check=False)  # pip says on stderr what it lacks
        return made.stdout.strip() if made.returncode == 0 else ""

    @classmethod
    @functools.cache
    def server(cls):
        return forked_script.ForkServer(MODULES, cls.environment(), cls.interpreter())

    @staticmethod
    def environment(**settings):
        return own_workers.environment(HF_HUB_OFFLINE="1", PYTHONWARNINGS="ignore", **settings)

    def python(self, *arguments, **settings):
        if self.gates:
            settings[own_workers.gate.VARIABLE] = " ".join(one.text for one in self.gates)
            arguments = (os.path.join(own_workers.HERE, "paced_script.py"), *arguments)
        return forked_script.ForkedScript(self.server(), *arguments, cwd=self.folder, environment=self.environment(**settings))

    def plain(self, name, accumulate):
        """The lines that the script prints without capstan."""
        out = self.path(f"plain-{name}-{accumulate}")
        os.makedirs(out)
        with self.python(os.path.join(real_scripts_test.SCRIPTS, f"{name}.py"), out, str(accumulate)) as process:
            self.assertEqual(process.wait(), 0, process.output)
            return self.said(process)

    def launched(self, run, name, accumulate, processes, *more):
        samples = SAMPLES[name][1] * accumulate
        settings = {"job.steps": steps_of(name, accumulate), "job.slots": processes, "job.global_batch": samples,
                    "optimizer.kind": '"adamw"', "optimizer.clip_norm": 0, "cluster.workers": processes, "cluster.servers": 2, "limits.lease": harness.patient(2),
                    "limits.join": harness.DEADLINE}
        return self.launch(os.path.join(own_workers.EXAMPLES, "pytorch", "digits.toml"),
                           *(word for key, value in settings.items() for word in ("--set", f"{key}={value}")),
                           *(word for setting in more for word in ("--set", setting)), run=run)

    def script(self, run, name, accumulate, launch, index, processes):
        os.makedirs(self.path(f"{run}-out"), exist_ok=True)
        if not os.path.exists(self.path(f"{run}.py")):
            self.write(f"{run}.py", SCRIPTS_OF[name].converted(name)[0])
        return self.python(self.path(f"{run}.py"), self.path(f"{run}-out"), str(accumulate), CAPSTAN_COORDINATOR=self.address(launch),
                           CAPSTAN_INDEX=str(index), CAPSTAN_INDEXES=str(processes))

    @staticmethod
    def said(process):
        return [line for line in process.lines if LINE.match(line)]

    def one(self, run, name, accumulate):
        with self.launched(run, name, accumulate, 1) as launch, self.script(run, name, accumulate, launch, 0, 1) as process:
            self.digest_at_end(launch, run, [process])
        return self.said(process)

    def two(self, run, name, accumulate):
        """Returns the digest of the weights, and each process's lines."""
        with self.launched(run, name, accumulate, 2) as launch:
            with self.script(run, name, accumulate, launch, 0, 2) as a, self.script(run, name, accumulate, launch, 1, 2) as b:
                return self.digest_at_end(launch, run, [a, b]), [self.said(a), self.said(b)]

    def both(self, name):
        """What two() returns for one batch in each step, run once for all tests."""
        return self.once(name, lambda: self.two(f"{name}-both", name, 1))

    def two_of_which_one_is_killed(self, run, name, accumulate):
        """Returns the digest, and the lines of the process that took the place of the killed one."""
        with self.gate(KILLED_AT) as held, self.launched(run, name, accumulate, 2) as launch:
            with self.script(run, name, accumulate, launch, 0, 2) as a, self.script(run, name, accumulate, launch, 1, 2) as b:
                self.wait_for_steps(run, KILLED_AT)
                os.kill(b.pid, signal.SIGKILL)
                self.assertEqual(b.wait(), -signal.SIGKILL)
                with self.script(run, name, accumulate, launch, 1, 2) as c:
                    held.open()
                    return self.digest_at_end(launch, run, [a, c]), self.said(c)

    def losses(self, run):
        return [record["loss"] for record in self.metrics(run)]

    def assert_losses(self, run, name, lines, accumulate):
        """The job's losses are those that the plain script prints, where each step has `accumulate` of them."""
        printed = [float(found[1]) for line in lines if (found := LOSS.match(line))]
        parts = 1 if name in SCALED else accumulate
        steps = [sum(printed[at:at + accumulate]) / parts for at in range(0, len(printed), accumulate)]
        worst = max(abs(ours - theirs) / max(1.0, theirs) for ours, theirs in zip(self.losses(run), steps, strict=True))
        self.assertLessEqual(worst, real_scripts_test.TOLERANCE)
        return worst

    def test_a_worker_has_at_most_six_lines_that_the_script_has_not(self):
        for name, script in SCRIPTS_OF.items():
            with self.subTest(name):
                lines = script.converted(name)[1]
                print(f"{name}: {lines} lines")
                self.assertLessEqual(lines, real_scripts_test.LINES_MAX)

    def test_one_process_prints_what_the_plain_script_prints(self):
        for name, accumulate in tier.some("scripts of one process", CASES, 3):
            with self.subTest(f"{name}-{accumulate}"):
                worst = self.assert_same(self.one(f"{name}-{accumulate}", name, accumulate), self.plain(name, accumulate))
                print(f"{name}, {accumulate} batches for a step: {worst:.1e} from the plain script")

    def test_a_job_that_ends_before_the_loop_ends_it(self):
        for name, steps in tier.some("steps of a job", itertools.product(COUNTS, (16, 20)), 2):  # of the loop's 24, in epochs of 8
            run = f"{name}-{steps}"
            with self.subTest(run), self.launched(run, name, 1, 1, f"job.steps={steps}") as launch:
                with self.script(run, name, 1, launch, 0, 1) as process:
                    self.digest_at_end(launch, run, [process])
                self.assertEqual(len(self.metrics(run)), steps)

    def test_the_best_model_is_the_same_in_all_processes(self):
        """Here the best evaluation is the one with the greatest loss."""
        name = "hugging_face_trainer"
        changes = [("import torch\n", "import torch\nimport transformers\n"),
                   ("warmup_steps=4, ", 'warmup_steps=4, load_best_model_at_end=True, metric_for_best_model="loss", greater_is_better=True, '),
                   ("eval_dataset=data[:32])", "eval_dataset=data[:32], callbacks=[transformers.EarlyStoppingCallback(3)])"),
                   ("trainer.save_model(", "trainer.evaluate()\nprint('validation', trainer.state.best_model_checkpoint[-13:])\ntrainer.save_model(")]
        plain = self.write("best-plain.py", self.changed(name, Script(), changes))
        with self.python(plain, self.path("best-plain"), "1") as process:
            self.assertEqual(process.wait(), 0, process.output)
        self.write("best.py", self.changed(name, SCRIPTS_OF[name], changes))
        wanted = [line for line in self.said(process) if line.startswith("validation")]
        self.assertEqual(wanted[0], wanted[3])
        for lines in self.two("best", name, 1)[1]:
            self.assert_same([line for line in lines if line.startswith("validation")], wanted)

    def test_a_process_that_is_started_again_takes_no_checkpoint_and_logs_the_loss_of_its_steps(self):
        changes = {"lightning_module": [
            ("batch_size=64))", 'batch_size=64), ckpt_path=sys.argv[3] if torch.os.path.exists(sys.argv[3]) else None)')],
                   "hugging_face_trainer": [
            ("    def evaluate", '    def log(self, logs, *rest, **named):\n        print("logged", logs.get("loss"))\n'
             "        super().log(logs, *rest, **named)\n\n    def evaluate"),
            ("trainer.train()", "trainer.train(resume_from_checkpoint=torch.os.path.exists(sys.argv[3]))")]}
        for name in COUNTS:
            run = f"{name}-again"
            marker, digest = self.path(f"{run}-marker"), self.both(name)[0]
            self.write(f"{run}.py", self.changed(name, SCRIPTS_OF[name], changes[name]).replace("sys.argv[3]", f'"{marker}"'))
            with self.subTest(name), self.gate(KILLED_AT) as held, self.launched(run, name, 1, 2) as launch:
                with self.script(run, name, 1, launch, 0, 2) as a, self.script(run, name, 1, launch, 1, 2) as b:
                    self.wait_for_steps(run, KILLED_AT)
                    os.kill(b.pid, signal.SIGKILL)
                    b.wait()
                    self.write(f"{run}-marker", "")
                    with self.script(run, name, 1, launch, 1, 2) as c:
                        held.open()
                        self.assertEqual(self.digest_at_end(launch, run, [a, c]), digest)
                self.assertRegex(c.output, f"is left out: the job goes on at step {KILLED_AT}")
                logged = [float(line.split()[1]) for line in c.lines if re.match(r"logged \d", line)]
                losses = [float(LOSS.match(line)[1]) for line in self.said(c) if LOSS.match(line)]
                for ours, theirs in zip(logged, losses):
                    self.assertAlmostEqual(ours, theirs, delta=1e-3)
                self.assertEqual(len(logged), len(losses) if name in SCALED else 0)

    def test_a_process_with_one_slot_notices_its_place(self):
        with self.python(self.write("own_slot.py", OWN_SLOT)) as process:
            self.assertEqual(process.wait(), 0, process.output)
        self.assertEqual(self.said(process), ["step rank 1 is taken", "step again: the job went back to step 3, and loop cannot: start the "
                                              "process again, which goes on at that step"])

    def test_accelerate_s_loader_sends_its_batches_to_the_device(self):
        """There is no second device here, so the function that moves a batch is replaced."""
        changes = [("from accelerate import Accelerator\n", "import accelerate.data_loader\nfrom accelerate import Accelerator\n"
                    'accelerate.data_loader.send_to_device = lambda batch, device, **_: print("sent to", device, flush=True) or batch\n')]
        self.write("sent.py", self.changed("accelerate_loop", SCRIPTS_OF["accelerate_loop"], changes))
        with self.launched("sent", "accelerate_loop", 1, 1) as launch, self.script("sent", "accelerate_loop", 1, launch, 0, 1) as process:
            self.digest_at_end(launch, "sent", [process])
        self.assertEqual(process.lines.count("sent to cpu"), steps_of("accelerate_loop", 1))

    @staticmethod
    def files_in(folder):
        return sorted(os.path.relpath(os.path.join(path, name), folder) for path, _, names in os.walk(folder) for name in names)

    def test_variants_of_the_scripts_print_what_the_plain_ones_print(self):
        for index in tier.some("variants", range(len(VARIANTS)), 2):
            name, tolerance, changes = VARIANTS[index]
            run = f"{name}-{index}"
            with self.subTest(run):
                plain = self.write(f"{run}-plain.py", self.changed(name, Script(), changes))
                with self.python(plain, self.folder, "1") as process:
                    self.assertEqual(process.wait(), 0, process.output)
                self.write(f"{run}.py", self.changed(name, SCRIPTS_OF[name], changes))
                worst = self.assert_same(self.one(run, name, 1), self.said(process), tolerance)
                print(f"{name}, {changes[0][1]}: {worst:.1e} from the plain script")

    def test_capstan_run_makes_the_job_of_a_script_and_ends_with_its_loop(self):
        """Lightning stops by itself after two of three epochs, as with EarlyStopping."""
        stops = ("        if not self.trainer.sanity_checking:\n",
                 "        self.trainer.should_stop = self.current_epoch == 1\n        if not self.trainer.sanity_checking:\n")
        self.write("run.py", self.changed("lightning_module", SCRIPTS_OF["lightning_module"], [stops]))
        names = ("PYTHONPATH", "OMP_NUM_THREADS", "PYTHONWARNINGS")
        words = [f"{key}={value}" for key, value in self.environment().items() if key in names]
        with harness.Process("/usr/bin/env", *words, harness.program("capstan"), "run", "--workers", "2", "--run-dir", self.path("run"),
                             "--set", f"limits.join={harness.DEADLINE}", "--python", self.interpreter(), self.path("run.py"), self.folder,
                             "2", cwd=self.folder) as run:
            self.assertEqual(run.wait(), 0, run.output)
        with open(self.path("run", "job.toml"), encoding="utf-8") as file:
            self.assertRegex(file.read(), r"global_batch = 64\b")
        self.assertEqual(len(self.metrics("run")), 8)

    def assert_checkpoints(self, ours, theirs):
        """The folders have the same files, and those of weights and of an optimizer's state have the same numbers."""
        self.assertEqual(self.files_in(ours), self.files_in(theirs))
        with self.python(os.path.join(own_workers.HERE, "same_checkpoints.py"), ours, theirs) as process:
            self.assertEqual(process.wait(), 0, process.output)
            print(process.output.strip())

    def test_two_processes_have_the_losses_of_the_plain_script(self):
        for name, accumulate in tier.some("scripts of two processes", CASES, 3):
            with self.subTest(f"{name}-{accumulate}"):
                run = f"{name}-{accumulate}-two"
                plain, (_, said) = self.plain(name, accumulate), self.two(run, name, accumulate)
                worst = self.assert_losses(run, name, plain, accumulate)
                for lines in said:
                    validations = [[line for line in some if line.startswith("validation")] for some in (lines, plain)]
                    worst = max(worst, self.assert_same(*validations))
                self.assert_checkpoints(self.path(f"{run}-out"), self.path(f"plain-{name}-{accumulate}"))
                print(f"{name}, {accumulate} batches for a step, two processes: {worst:.1e} from the plain script")

    def test_two_processes_of_which_one_is_killed_end_with_the_bits_of_two(self):
        for name in SCRIPTS_OF:
            with self.subTest(name):
                digest, said = self.both(name)
                digest_killed, lines = self.two_of_which_one_is_killed(f"{name}-killed", name, 1)
                self.assertEqual(digest_killed, digest)
                if name in COUNTS:  # the new process counts as the old one would have
                    self.assertGreater(len(lines), steps_of(name, 1) - KILLED_AT - 1)
                    self.assertEqual(lines, said[1][-len(lines):])

    def test_a_job_that_goes_back_takes_its_scripts_along(self):
        """A server is killed. Lightning's loop follows the job; Trainer's ends, and a new process goes on."""
        for name in COUNTS:
            run = f"{name}-lost"
            digest, said = self.both(name)
            with self.subTest(name), self.gate(KILLED_AT) as held, self.launched(run, name, 1, 2, "snapshot.every_steps=4") as launch:
                start = lambda index: self.script(run, name, 1, launch, index, 2)
                with start(0) as a, start(1) as b:
                    self.wait_for_steps(run, KILLED_AT)
                    os.kill(recovery.pid_of(self.path(run), "server-0"), signal.SIGKILL)
                    held.open()
                    if name == "lightning_module":
                        self.assertEqual(self.digest_at_end(launch, run, [a, b]), digest)
                        lines = self.said(b)
                    else:
                        self.assertEqual([process.wait() for process in (a, b)], [1, 1])
                        self.assertRegex(self.error_of(b), r"Rewound: the job went back to step \d+, and.*start the process again")
                        with start(0) as c, start(1) as d:
                            self.assertEqual(self.digest_at_end(launch, run, [c, d]), digest)
                        lines = self.said(d)
                rest = steps_of(name, 1) - KILLED_AT
                self.assertEqual(lines[-rest:], said[1][-rest:])

    @staticmethod
    def error_of(process):
        """The error's line. Libraries may print others after it."""
        return next((line for line in reversed(process.lines) if re.match(r"[\w.]+(Error|Exception|errors\.\w+): ", line)), process.output)

    def changed(self, name, script, changes):
        """The text of the script with the lines of a worker and with these changes."""
        text, _ = script.converted(name)
        for old, new in changes:
            self.assertEqual(text.count(old), 1, old)
            text = text.replace(old, new)
        return text

    def refused(self, name, changes, said, processes=1):
        """Runs the script with other lines in a job, and looks at the error by which the last of its processes ends."""
        with self.subTest(said), contextlib.ExitStack() as running:
            path = self.write("refused.py", self.changed(name, SCRIPTS_OF[name], changes))
            for index in range(processes):
                process = running.enter_context(self.python(
                    path, self.folder, "1", CAPSTAN_COORDINATOR=self.address(self.job_of_refusals), CAPSTAN_INDEX=str(index),
                    CAPSTAN_INDEXES=str(processes)))
            self.assertEqual(process.wait(), 1, process.output)
            self.assertRegex(self.error_of(process), said)

    def test_lightning_what_the_job_does_not_take_up_is_refused(self):
        trainer, optimizer = "max_epochs=3, ", "        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]\n"
        cases = [
            ([("DataLoader(data, batch_size=32)", "[DataLoader(data, batch_size=32), DataLoader(data, batch_size=32)]")],
             "several training loaders.*ConcatDataset"),
            ([("        super().__init__()\n", "        super().__init__()\n        self.automatic_optimization = False\n"),
              ("gradient_clip_val=0.5, ", "")], r"automatic_optimization = False.*capstan.torch.connect\(\)"),
            ([(optimizer, optimizer.replace("[optimizer],", "[optimizer, torch.optim.SGD(self.parameters(), lr=0.1)],"))],
             "multiple optimizers.*manual optimization|2 optimizers, and a job has one"),
            ([(optimizer, optimizer.replace("0.5)]", "0.5)] * 2"))], "2 schedulers, and a job has one: chain them"),
            ([(optimizer, optimizer.replace("[torch", '[{"frequency": 2, "scheduler": torch').replace("0.5)]", "0.5)}]"))],
             '"frequency": 2, and the job\'s acts after each epoch'),
            ([(optimizer, "        return {'optimizer': optimizer, 'monitor': 'val_loss', 'lr_scheduler': "
               "torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)}\n")], "ReduceLROnPlateau depends on what one process measures"),
            ([(trainer, trainer + "limit_train_batches=4, ")], r"limit_train_batches=4 takes a part.*Subset\(...\)"),
            ([(trainer, trainer + "overfit_batches=2, ")], "overfit_batches=2 takes a part"),
            ([(trainer, trainer + "reload_dataloaders_every_n_epochs=1, ")], "reload_dataloaders_every_n_epochs=1.*leave it out"),
            ([("batch_size=64))", "batch_size=64), ckpt_path='some.ckpt')")], r"capstan launch --resume.*Net.load_from_checkpoint\(path\)"),
            ([("    def validation_step", "    def on_train_batch_start(self, batch, batch_idx):\n        return -1 if batch_idx == 4 else None\n\n"
               "    def validation_step")], "left epoch 0 at step 4, and the job's epoch ends at step 8"),
            ([("callbacks=[checkpoint]", "callbacks=[checkpoint, L.pytorch.callbacks.GradientAccumulationScheduler({1: 2})]")],
             "accumulate_grad_batches changed from 1 to 2 at step 8"),
            ([(trainer, trainer + "limit_train_batches=1, ")], "limit_train_batches=1 takes a part"),
            ([(trainer, trainer + "fast_dev_run=1, ")], "fast_dev_run=True takes a part"),
            ([(trainer, trainer + "devices=2, ")], r"Trainer\(devices=2\).*capstan run --workers 2"),
            ([(trainer, trainer + "num_nodes=2, ")], r"Trainer\(num_nodes=2\).*capstan run --workers 2"),
            ([(optimizer, optimizer + "\n    def lr_scheduler_step(self, scheduler, metric):\n        scheduler.step()\n")],
             r"lr_scheduler_step\(\): the job's scheduler acts by itself.*write LambdaLR"),
            ([("        self.log(\"train_loss\", loss)\n", "        self.lr_schedulers().step()\n")],
             r"self.lr_schedulers\(\).step\(\): the job's scheduler acts by itself.*write LambdaLR"),
            ([("        return loss\n", "        return loss if batch_idx else None\n")], r"returned None.*write `return loss \* 0`"),
            ([("L.seed_everything(5)\n", "class Stream(torch.utils.data.IterableDataset):\n    def __iter__(self):\n"
               "        return iter(data)\n\n\nL.seed_everything(5)\n"), ("DataLoader(data, batch_size=32)", "DataLoader(Stream(), batch_size=32)")],
             r"no samples by number.*give fit\(\) a data set"),
        ]
        self.write("some.ckpt", "")
        with self.launched("refused", "lightning_module", 1, 1) as self.job_of_refusals:
            for changes, said in cases:
                self.refused("lightning_module", changes, said)
        with self.launched("refused-groups", "lightning_module", 3, 1) as self.job_of_refusals:
            self.refused("lightning_module", [("accumulate_grad_batches=accumulate", "accumulate_grad_batches=3"),
                                              ("DataLoader(data, batch_size=32)", "DataLoader(data, batch_size=32, drop_last=True)")],
                         r"last 64 of an epoch's 256 samples.*Subset\(data, range\(192\)\)")

    def test_lightning_what_one_of_several_processes_cannot_know_is_refused(self):
        trainer, stopping = "max_epochs=3, ", "callbacks=[checkpoint, L.pytorch.callbacks.EarlyStopping(monitor='train_loss')]"
        cases = [
            ([(trainer, trainer + 'max_time="00:01:00:00", ')], "max_time.*2 processes has its own clock: write max_steps"),
            ([('self.log("train_loss", loss)', 'self.log("train_loss", loss, sync_dist=True)')], r"sync_dist=True\) in training_step\(\).*leave it out"),
            ([("callbacks=[checkpoint]", stopping)], r'EarlyStopping\(monitor="train_loss"\).*monitor one of validation_step\(\)'),
            ([('self.log("val_loss", self.loss(batch))', 'self.log("val_loss", self.loss(batch), sync_dist=True)'),
              ("batch_size=64))", "batch_size=64))\ntrainer.validate(dataloaders=DataLoader(data, batch_size=64), ckpt_path='best')")],
             r"ckpt_path in process 1: only process 0 writes.*if trainer.is_global_zero:"),
        ]
        with self.launched("refused", "lightning_module", 1, 2) as self.job_of_refusals:
            for changes, said in cases:
                self.refused("lightning_module", changes, said, 2)

    def test_a_step_of_other_samples_than_the_job_s_is_refused(self):
        for name, old, new in (("lightning_module", "data, batch_size=32", "data, batch_size=16"),
                               ("hugging_face_trainer", "train_batch_size=16", "train_batch_size=32")):
            with self.launched(f"refused-{name}", name, 1, 1) as self.job_of_refusals:
                samples = new.split("=")[-1]
                self.refused(name, [(old, new)], f"makes a step of {samples} samples.*set job.global_batch = {samples}")

    def test_a_scaler_of_accelerate_is_refused(self):
        """Accelerate has one for a GPU only, so here its optimizer is made to have one."""
        has_one = ("from accelerate import Accelerator\n", "import accelerate.optimizer\nfrom accelerate import Accelerator\n"
                   "accelerate.optimizer.AcceleratedOptimizer.scaler = property(lambda self: self, lambda self, value: None)\n")
        with self.launched("refused", "accelerate_loop", 1, 1) as self.job_of_refusals:
            self.refused("accelerate_loop", [has_one], 'has a GradScaler of the process\'s own: write mixed_precision="bf16"')

    def test_hugging_face_what_the_job_does_not_take_up_is_refused(self):
        cases = [
            ([("trainer.train()", "trainer.train(resume_from_checkpoint=True)")],
             r"capstan launch --resume.*GPT2LMHeadModel.from_pretrained\("),
            ([("report_to=[]", "report_to=[], auto_find_batch_size=True")], "write per_device_train_batch_size="),
            ([("report_to=[]", 'report_to=[], lr_scheduler_type="reduce_lr_on_plateau"')],
             "ReduceLROnPlateau depends on what one process measures"),
            ([("train_dataset=data", "train_dataset=Stream()"), ("report_to=[]", "report_to=[], max_steps=24"),
              ("set_seed(11)\n", "class Stream(torch.utils.data.IterableDataset):\n    def __iter__(self):\n"
               "        return iter(data)\n\n\nset_seed(11)\n")], "no samples by number.*give Trainer a train_dataset"),
        ]
        with self.launched("refused", "hugging_face_trainer", 1, 1) as self.job_of_refusals:
            for changes, said in cases:
                self.refused("hugging_face_trainer", changes, said)
        if self.NEWEST:  # Transformers 4 does not honour the argument in a process without torch.distributed
            uneven = [('"labels": text} for text in texts]',
                       '"labels": text.masked_fill(torch.arange(16) < at % 5, -100)} for at, text in enumerate(texts)]')]
            with self.launched("refused-uneven", "hugging_face_trainer", 1, 2) as self.job_of_refusals:
                self.refused("hugging_face_trainer", uneven, "different numbers of tokens.*write average_tokens_across_devices=False", 2)


if __name__ == "__main__":
    FrameworksTest.NEWEST = "--newest" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--newest"]
    lack = None if FrameworksTest.interpreter() else "scripts/frameworks made no environment: PyPI and python3-venv are needed"
    skips.main("torch", lack)
