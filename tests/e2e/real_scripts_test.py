#!/usr/bin/python3
"""Training scripts as people have them (tests/e2e/scripts), and the lines that make each a worker: how many these are, the
numbers that it prints beside the plain script, and the bits of two processes of which one is killed."""
import difflib
import hashlib
import os
import re
import signal
import sys

import harness
import own_workers
import skips
import tier

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(HERE, "scripts")
LINES_MAX = 6  # changed or added
TOLERANCE = 1e-5
NUMBER = re.compile(r"-?\d+\.?\d*(?:e[-+]?\d+)?")


class Script:
    """A script, the changes that make it a worker, and its job."""

    def __init__(self, *changes, **job):
        self.changes, self.job = changes, job

    def converted(self, name):
        with open(os.path.join(SCRIPTS, f"{name}.py"), encoding="utf-8") as file:
            plain = text = file.read()
        for old, new in self.changes:
            text = replaced(text, old, new)
        return text, lines_changed(plain, text)


def replaced(text, old, new):
    assert text.count(old) == 1, old
    return text.replace(old, new)


def lines_changed(old, new):
    """The number of lines in `new` that are not in `old`."""
    return sum(line.startswith("+ ") for line in difflib.ndiff(old.splitlines(), new.splitlines()))


# A loop without a loader is run as it is, and with the line that has it follow the job when a process is lost.
SCRIPTS_OF = {
    "language_gpt": Script(
        ("import torch\n", "import torch\nimport capstan.torch\n"),
        ("master_process = True\n", "trainer = capstan.torch.connect()\nmaster_process = trainer.is_main\n"),
        ('scaler = torch.cuda.amp.GradScaler(enabled=False)\n',
         'model, optimizer = trainer.prepare(model, optimizer)\nscaler = torch.cuda.amp.GradScaler(enabled=False)\n'),
        ("        logits, loss = model(X, Y)\n",
         "        model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1\n        logits, loss = model(X, Y)\n"),
        kind="adamw", steps=12),
    "digits_cnn": Script(
        ("import torch\n", "import torch\nimport capstan.torch\n"),
        ("    for epoch in range(1, epochs + 1):\n",
         "    trainer = capstan.torch.connect()\n    model, optimizer, train_loader, scheduler = "
         "trainer.prepare(model, optimizer, train_loader, scheduler)\n    for epoch in range(1, epochs + 1):\n"),
        ("    torch.save(", "    if trainer.is_main: torch.save("),
        kind="adadelta", steps=30, global_batch=32),
    "word_lstm": Script(
        ("import torch\n", "import torch\nimport capstan.torch\n"),
        ("best_val_loss = None\n", "trainer = capstan.torch.connect()\nmodel, optimizer = trainer.prepare(model, optimizer)\nbest_val_loss = None\n"),
        kind="sgd", steps=30),
    "image_resnet": Script(
        ("import torch\n", "import torch\nimport capstan.torch\n"),
        ("    for epoch in range(epochs):\n",
         "    trainer = capstan.torch.connect()\n    model, optimizer, train_loader, scheduler = "
         "trainer.prepare(model, optimizer, train_loader, scheduler)\n    for epoch in range(epochs):\n"),
        ("        save_checkpoint(", "        if trainer.is_main: save_checkpoint("),
        kind="momentum", steps=16, global_batch=16),
    "image_vae": Script(
        ("import torch\n", "import torch\nimport capstan.torch\n"),
        ("for epoch in range(1, epochs + 1):\n",
         "trainer = capstan.torch.connect()\nmodel, optimizer, train_loader = trainer.prepare(model, optimizer, train_loader)\n"
         "for epoch in range(1, epochs + 1):\n"),
        ("        loss.backward()\n", '        trainer.backward(loss, reduction="sum")\n'),
        ("torch.save(", "if trainer.is_main: torch.save("),
        kind="adam", steps=10, global_batch=32),
    "actor_critic": Script(
        ("import torch\n", "import torch\nimport capstan.torch\n"),
        ("running_reward = 0.0\n", "trainer = capstan.torch.connect()\nmodel, optimizer = trainer.prepare(model, optimizer)\nrunning_reward = 0.0\n"),
        kind="adam", steps=12),
    "trainer_class": Script(
        ("import torch\n", "import torch\nimport capstan.torch\n"),
        ("from torch.distributed import destroy_process_group, init_process_group\n", ""),
        ("from torch.nn.parallel import DistributedDataParallel as DDP\n", ""),
        ("        self.rank = int(os.environ[\"RANK\"])\n",
         "        trainer = capstan.torch.connect()\n        self.rank = trainer.rank\n"),
        ("        self.train_data, self.optimizer = train_data, optimizer\n        self.model = DDP(model)\n",
         "        self.model, self.train_data, self.optimizer = trainer.prepare(model, train_data, optimizer)\n"),
        ("self.model.module.state_dict()", "self.model.state_dict()"),
        (", shuffle=False, sampler=DistributedSampler(train_set, shuffle=False))", ")"),
        ('    init_process_group("gloo")\n', ""), ("    destroy_process_group()\n", ""),
        kind="sgd", steps=24, global_batch=16),
}
PLAIN_ENVIRONMENT = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
# A forward pass that draws numbers: the plain script takes those of a job, which follow from its seed, the step, the slot and the
# batch's place in the slot.
THE_JOB_S_DRAWS = {
    "image_vae": ("        recon, mu, logvar = model(data)\n",
                  "        from capstan.torch.orders import key_of\n"
                  "        step = (epoch - 1) * len(train_loader) + batch_idx\n"
                  '        torch.manual_seed(key_of("compute", 1, step, 0, 0))\n'
                  "        recon, mu, logvar = model(data)\n"),
}
FOLLOWS_THE_LOADER = ("digits_cnn", "image_resnet", "image_vae", "trainer_class")
# The lines of a loop without a loader that take its samples from the slots of the job.
FROM_SLOTS = {
    "language_gpt": [("while True:\n", 'for _ in trainer.slots():\n    X, Y = get_batch("train")\n'),
                     ("iter_num += 1\n", "iter_num = trainer.global_step\n"),
                     ("        print(f\"step {iter_num}: val loss", "        with torch.random.fork_rng(): print(f\"step {iter_num}: val loss")],
    # Its hidden state starts again with each batch: a restarted process could not get back the one that it had.
    "word_lstm": [("    for batch, i in enumerate(range(0, train_data.size(0) - 1, bptt)):\n",
                   "    for batch, slot in enumerate(trainer.slots()):\n"
                   "        i = (2 * trainer.global_step + slot.index) * bptt % (train_data.size(0) - 1)\n"),
                  ("        hidden = repackage_hidden(hidden)\n        output, hidden = model(data, hidden)\n        loss",
                   "        hidden = model.init_hidden(batch_size)\n        output, hidden = model(data, hidden)\n        loss")],
    "actor_critic": [("for i_episode in range(episodes):\n", "for i_episode, _ in enumerate(trainer.slots()):\n"),
                     ("    loss.backward()\n", '    trainer.backward(loss, 1, reduction="sum")\n')],
}


def that_is_killed(text, flag):
    """The script, of which worker 1 is killed before its fourth update, once."""
    dies = f"""
import os as _os
_calls = []
def _dies():
    _calls.append(0)
    if len(_calls) == 4 and _os.environ["CAPSTAN_INDEX"] == "1" and not _os.path.exists({flag!r}):
        open({flag!r}, "w").close()
        _os.kill(_os.getpid(), {int(signal.SIGKILL)})
"""
    first, rest = text.split("\n", 1)  # the docstring stays first
    rest = re.sub(r"(?m)^( *)((?:self\.|scaler\.)?(?:optimizer\.)?step\()", r"\1_dies()\n\1\2", rest)
    return first + dies + rest


class LinesTest(own_workers.OwnWorkersTest):
    """Compares what two scripts print."""

    def assert_same(self, got, wanted, tolerance=TOLERANCE):
        """The lines have the same words, and the same numbers to `tolerance`."""
        self.assertEqual([NUMBER.sub("#", line) for line in got], [NUMBER.sub("#", line) for line in wanted])
        worst = 0.0
        for ours, theirs in zip(got, wanted):
            for a, b in zip(map(float, NUMBER.findall(ours)), map(float, NUMBER.findall(theirs))):
                worst = max(worst, abs(a - b) / max(1.0, abs(b)))
            self.assertLessEqual(worst, tolerance, (ours, theirs))
        return worst


class RealScriptsTest(LinesTest):
    """Each script as a worker of a job, started by capstan launch."""

    EXAMPLE = "pytorch"
    IMPORTED = ("numpy", "torch", "torch.utils.data")

    def launched(self, run, name, text, *, workers=1, slots=1, steps=None):
        job = {"batch": 1, **SCRIPTS_OF[name].job}
        settings = {"job.steps": steps or job["steps"], "job.slots": slots, "job.global_batch": job.get("global_batch", slots),
                    "optimizer.kind": f'"{job["kind"]}"', "optimizer.clip_norm": 0, "cluster.workers": workers, "cluster.servers": 2,
                    "limits.lease": harness.patient(2), "limits.join": harness.DEADLINE, "snapshot.every_steps": 4}
        os.makedirs(self.path(f"{run}-out"), exist_ok=True)
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        variables = [f"{key}={value}" for key, value in own_workers.environment().items() if key in ("PYTHONPATH", "OMP_NUM_THREADS")]
        return harness.Process("/usr/bin/env", *variables, harness.program("capstan"), "launch",
                               os.path.join(own_workers.EXAMPLES, "pytorch", "digits.toml"), "--run-dir", self.path(run), *words, "--",
                               sys.executable, "-B", self.write(f"{run}.py", text), self.path(f"{run}-out"), cwd=self.folder)

    def plain(self, name):
        """The lines that the script prints without capstan."""
        os.makedirs(self.path("plain"), exist_ok=True)
        port = str(harness.free_port())
        with open(os.path.join(SCRIPTS, f"{name}.py"), encoding="utf-8") as file:
            text = file.read()
        if name in THE_JOB_S_DRAWS:
            text = replaced(text, *THE_JOB_S_DRAWS[name])
        script = self.write(f"plain-{name}.py", text)
        with self.python(script, self.path("plain"), MASTER_PORT=port, **PLAIN_ENVIRONMENT) as process:
            self.assertEqual(process.wait(), 0, process.output)
            return process.output.splitlines()

    def digest(self, run):
        return hashlib.sha256(self.weights(run)[1]).hexdigest()

    def said(self, launch, worker="worker-0"):
        begin = f"{worker}: "
        return [line[len(begin):] for line in launch.lines if line.startswith(begin) and not line.startswith((f"{begin}capstan: ", f"{begin}capstan.torch: "))]

    def test_a_worker_has_at_most_six_lines_that_the_script_has_not(self):
        for name, script in SCRIPTS_OF.items():
            with self.subTest(name):
                lines = script.converted(name)[1]
                print(f"{name}: {lines} lines")
                self.assertLessEqual(lines, LINES_MAX)

    def test_one_process_prints_what_the_plain_script_prints(self):
        for name, script in SCRIPTS_OF.items():
            with self.subTest(name), self.launched(name, name, script.converted(name)[0]) as launch:
                self.assertEqual(launch.wait(), 0, launch.output)
                worst = self.assert_same(self.said(launch), self.plain(name))
                print(f"{name}: {worst:.1e} from plain PyTorch")

    def test_two_processes_of_which_one_is_killed_end_with_the_bits_of_one(self):
        for name in tier.some("killed scripts", (*FOLLOWS_THE_LOADER, *FROM_SLOTS), 2):
            text = SCRIPTS_OF[name].converted(name)[0]
            for old, new in FROM_SLOTS.get(name, ()):
                text = replaced(text, old, new)
            digests = {}
            for run, workers in ((f"{name}-one", 1), (f"{name}-killed", 2)):
                mortal = that_is_killed(text, self.path(f"{run}-died")) if run.endswith("killed") else text
                with self.subTest(run), self.launched(run, name, mortal, workers=workers, slots=2) as launch:
                    self.assertEqual(launch.wait(), 0, launch.output)
                    self.assertEqual(os.path.exists(self.path(f"{run}-died")), run.endswith("killed"))
                    digests[run] = self.digest(run)
            with self.subTest(name):
                self.assertEqual(len(set(digests.values())), 1, digests)


if __name__ == "__main__":
    skips.main("torch")
