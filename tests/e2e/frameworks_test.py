#!/usr/bin/python3
"""Scripts of Lightning, Hugging Face's Trainer and Accelerate (tests/e2e/scripts), and the lines that make each a worker: how many
these are, the numbers that it prints beside the plain script, and the bits of two processes of which one is killed.

usage: frameworks_test.py --bin FOLDER [--newest]     by the versions for Debian's PyTorch, or by the newest; see scripts/frameworks
"""
import functools
import hashlib
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
STEP_LR = "[optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]"
# Further lines that both scripts have, and how far apart their numbers may be.
VARIANTS = (
    ("lightning_module", 1e-5, [
        ("gradient_clip_val=0.5, ", 'gradient_clip_val=0.01, gradient_clip_algorithm="value", '),
        ("max_epochs=3, ", "max_epochs=3, val_check_interval=0.5, "),
        (STEP_LR, '[optimizer], [{"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.8), "interval": "step"}]')]),
    ("lightning_module", 2e-2, [("max_epochs=3, ", 'max_epochs=3, precision="bf16-mixed", ')]),
    ("hugging_face_trainer", 1e-5, [
        ("warmup_steps=4, ", 'warmup_steps=4, lr_scheduler_type="cosine", max_grad_norm=0.0, load_best_model_at_end=True, '),
        ("save_model(", "evaluate()\ntrainer.save_model(")]),
)
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
        for name in SCRIPTS_OF:
            for accumulate in (1, 2):
                with self.subTest(f"{name}-{accumulate}"):
                    worst = self.assert_same(self.one(f"{name}-{accumulate}", name, accumulate), self.plain(name, accumulate))
                    print(f"{name}, {accumulate} batches for a step: {worst:.1e} from the plain script")

    @staticmethod
    def files_in(folder):
        return sorted(os.path.relpath(os.path.join(path, name), folder) for path, _, names in os.walk(folder) for name in names)

    def test_variants_of_the_scripts_print_what_the_plain_ones_print(self):
        for name, tolerance, changes in VARIANTS:
            run = f"{name}-{len(changes)}"
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

    def test_two_processes_have_the_losses_of_the_plain_script(self):
        for name in SCRIPTS_OF:
            for accumulate in (1, 2):
                with self.subTest(f"{name}-{accumulate}"):
                    run = f"{name}-{accumulate}-two"
                    plain, (_, said) = self.plain(name, accumulate), self.two(run, name, accumulate)
                    worst = self.assert_losses(run, name, plain, accumulate)
                    for lines in said:
                        validations = [[line for line in some if line.startswith("validation")] for some in (lines, plain)]
                        worst = max(worst, self.assert_same(*validations))
                    self.assertEqual(self.files_in(self.path(f"{run}-out")), self.files_in(self.path(f"plain-{name}-{accumulate}")))
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

    def refused(self, name, changes, said):
        """Runs the script with other lines in a job, and looks at the error by which it ends."""
        with self.subTest(said):
            text = self.changed(name, SCRIPTS_OF[name], changes)
            with self.python(self.write("refused.py", text), self.folder, "1", CAPSTAN_COORDINATOR=self.address(self.job_of_refusals),
                             CAPSTAN_INDEX="0", CAPSTAN_INDEXES="1") as process:
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
        ]
        self.write("some.ckpt", "")
        with self.launched("refused", "lightning_module", 1, 1) as self.job_of_refusals:
            for changes, said in cases:
                self.refused("lightning_module", changes, said)

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
        ]
        with self.launched("refused", "hugging_face_trainer", 1, 1) as self.job_of_refusals:
            for changes, said in cases:
                self.refused("hugging_face_trainer", changes, said)


if __name__ == "__main__":
    FrameworksTest.NEWEST = "--newest" in sys.argv
    sys.argv = [word for word in sys.argv if word != "--newest"]
    lack = None if FrameworksTest.interpreter() else "scripts/frameworks made no environment: PyPI and python3-venv are needed"
    skips.main("torch", lack)
