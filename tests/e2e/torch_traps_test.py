#!/usr/bin/python3
"""Habits of ordinary PyTorch scripts: each one trains as in plain PyTorch, or is refused at its line with the line to write."""
import os
import re
import signal

import harness
import own_workers
import skips
import torch_worker_test

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS_PER_EPOCH, SLOTS = 5, 2  # of torch_training.py's data in batches of 64
ENDLESS = own_workers.ENDLESS

# The first lines of each script; the next line of a script prepares the model.
BEGIN = ["model = training.network(5)", "optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)",
         "loader = DataLoader(training.data(), batch_size=32, shuffle=True)",
         "loss_of = lambda x, y: torch.nn.functional.mse_loss(model(x), y)"]
PREPARE = [*BEGIN, "model, optimizer, loader = trainer.prepare(model, optimizer, loader)"]
OWN_LOOP = [*BEGIN, "model, optimizer = trainer.prepare(model, optimizer)", "x, y = training.data()[:32]"]
BATCH = [*PREPARE, "x, y = next(iter(loader))"]
STEP_LR = [*BEGIN, "from torch.optim import lr_scheduler", "scheduler = lr_scheduler.StepLR(optimizer, 1, 0.5)"]


def scheduled(*more):
    return [*STEP_LR, f"model, optimizer, loader, scheduler = trainer.prepare({', '.join(['model, optimizer, loader, scheduler', *more])})"]


DIGEST = ["import hashlib",
          "def digest():",
          "    numbers = [p.detach().numpy().tobytes() for p in model.parameters()]",
          "    return hashlib.sha256(b''.join(numbers)).hexdigest()[:12]"]


class TrapTest(torch_worker_test.TorchJobTest):
    def worker(self, coordinator, lines, name="w", **settings):
        text = torch_worker_test.SCRIPT.format(folder=HERE, coordinator=coordinator, name=name,
                                               lines="\n".join("        " + line for line in lines))
        return self.python(self.write(f"{name}.py", text), **settings)

    def said(self, run, lines, *, name="w", **setup):
        """Runs these lines as the only worker of a job, and returns the lines that it prints."""
        with self.training_job(run, setup.pop("optimizer", "adamw"), **setup) as launch:
            with self.worker(self.address(launch), lines, name) as worker:
                self.digest_at_end(launch, run, [worker])
        return worker.output.splitlines()

    def rates(self, run):
        return [record["lr"] for record in self.metrics(run)]


class EpochTest(TrapTest):
    COUNTED = [*PREPARE, "print(len(loader), loader.batch_size, loader.num_workers, loader.drop_last, len(loader.dataset))",
               "for epoch in range(5):", "    loader.sampler.set_epoch(epoch)", "    batches = 0", "    for x, y in loader:",
               "        step(trainer, model, x, y)", "        batches += 1",
               "    print('epoch', epoch, batches, trainer.global_step)"]

    def test_a_pass_is_an_epoch_and_passes_after_the_job_are_empty_with_one_warning(self):
        lines = self.said("counted", self.COUNTED, steps=3 * STEPS_PER_EPOCH)
        self.assertIn("15 steps (3 epochs of 5)", lines[0])
        self.assertEqual(lines[1], "10 32 0 False 320")
        self.assertEqual([line for line in lines if line.startswith("epoch")],
                         ["epoch 0 10 5", "epoch 1 10 10", "epoch 2 10 15", "epoch 3 0 15", "epoch 4 0 15"])
        warnings = [line for line in lines if "the job is done" in line]
        self.assertEqual(len(warnings), 1)
        self.assertRegex(warnings[0], r"15 steps are 3 epochs of 5 steps.*pass 4.*Set job.steps to 5 times.*trainer.epochs\(\)")

    def test_an_epoch_is_the_same_for_pieces_of_a_slot_and_ragged_batches(self):
        lines = self.said("pieces", [line.replace("batch_size=32", "batch_size=20") for line in self.COUNTED],
                          steps=2 * STEPS_PER_EPOCH)
        self.assertEqual(lines[1].split()[0], "20")
        self.assertIn("epoch 1 20 10", lines)
        lines = self.said("ragged", self.COUNTED, steps=12, global_batch=29)  # 320 = 11 * 29 + 1: a slot of 14 or 15, and one of 1
        self.assertIn("23 32 0 False 320", lines)
        self.assertIn("epoch 0 23 12", lines)

    def test_what_comes_between_epochs_sees_the_weights_of_that_moment_in_every_process(self):
        lines = [*PREPARE, *DIGEST, "for epoch in range(3):", "    batches = 0", "    for x, y in loader:",
                 "        step(trainer, model, x, y)", "        batches += 1",
                 "    print('epoch', epoch, digest(), batches, len(loader), trainer.is_main)"]
        one = [line.split() for line in self.said("one", lines, steps=15) if line.startswith("epoch")]
        self.assertEqual(len({words[2] for words in one}), 3)
        with self.training_job("two", "adamw", steps=15, workers=2) as launch:
            with self.worker(self.address(launch), lines, "a") as a, self.worker(self.address(launch), lines, "b") as b:
                self.digest_at_end(launch, "two", [a, b])
        for worker in (a, b):
            two = [line.split() for line in worker.output.splitlines() if line.startswith("epoch")]
            self.assertEqual([words[:3] for words in two], [words[:3] for words in one])
            self.assertEqual([words[3:5] for words in two], [["5", "5"]] * 3)
        self.assertEqual((a.output + b.output).count("True"), 3, "one of the two is the main one")

    def test_a_batch_that_is_looked_at_comes_again(self):
        lines = [*PREPARE, "for epoch in range(3):", "    first = next(iter(loader))[0]", "    batches = 0",
                 "    for x, y in loader:", "        if batches == 0: print('same', torch.equal(x, first))",
                 "        step(trainer, model, x, y)", "        batches += 1", "    print('epoch', epoch, batches)",
                 "    if epoch == 1: break"]
        lines = self.said("peeked", lines, steps=10)
        self.assertEqual([line for line in lines if line[:4] in ("same", "epoc")],
                         ["same True", "epoch 0 10", "same True", "epoch 1 10"])

    def test_a_pass_that_was_left_within_a_slot_goes_on_there(self):
        lines = [line.replace("batch_size=32", "batch_size=8") for line in PREPARE]
        lines += ["for x, y in loader:", "    step(trainer, model, x, y)", "    break", "batches = 0",
                  "for _ in range(3):", "    for x, y in loader:", "        step(trainer, model, x, y)", "        batches += 1",
                  "print(batches)"]
        self.assertIn(str(4 * 2 * 10 - 1), self.said("left", lines, steps=10))

    def test_a_process_that_begins_late_has_empty_passes_and_epochs_begin_with_the_job_s(self):
        begin = [*PREPARE, "done = 0", "for epoch in range(9):", "    for x, y in loader:",
                 "        step(trainer, model, x, y)", "        done += 1",
                 "        if done == 14:", "            trainer.close('enough')", "            sys.exit(0)"]
        late = self.COUNTED
        for run, lines, wanted in (("late", late, ["epoch 0 0 7", "epoch 1 6 10", "epoch 2 10 15", "epoch 3 0 15", "epoch 4 0 15"]),
                                   ("told", [line.replace("range(5)", "trainer.epochs()") for line in late],
                                    ["epoch 1 6 10", "epoch 2 10 15"]),
                                   ("fewer", [line.replace("range(5)", "trainer.epochs(2)") for line in late], ["epoch 1 6 10"])):
            with self.subTest(run), self.training_job(run, "adamw", steps=15) as launch:
                with self.worker(self.address(launch), begin, "first") as first:
                    self.assertEqual(first.wait(), 0, first.output)
                with self.worker(self.address(launch), lines, "second") as second:
                    self.assertEqual(second.wait(), 0, second.output)
                said = second.output.splitlines()
                self.assertEqual([line for line in said if line.startswith("epoch")], wanted)
                self.assertEqual(sum("at step 7, in epoch 1" in line for line in said), int(run == "late"))
                self.assertEqual(any("the script ends at step 10 of the job's 15" in line for line in said), run == "fewer")

    def test_epochs_want_a_pass_each(self):
        with self.training_job("empty", "adamw", steps=ENDLESS) as launch:
            said = self.said_by(self.address(launch), [*PREPARE, "for epoch in trainer.epochs(): pass"])
        self.assertRegex(said.splitlines()[-1], "^Invalid: epoch 0 had no pass")

    def test_a_loader_of_a_slot_s_batch_is_cut_and_says_so_unless_it_has_the_global_batch(self):
        for batch, said in ((32, ""), (64, ""), (48, r"batch_size is 48, and a slot has 32 samples \(job.global_batch = 64 in 2 slots\)")):
            with self.subTest(batch), self.training_job(f"by-{batch}", "adamw", steps=1) as launch:
                lines = [line.replace("batch_size=32", f"batch_size={batch}") for line in PREPARE]
                output = self.said_by(self.address(launch), [*lines, "print([step(trainer, model, x, y) and 0 or len(x) for x, y in loader])"])
                self.assertIn("[32, 32]", output)
                self.assertRegex(output, said) if said else self.assertNotIn("batch_size", output)


class SchedulerTest(TrapTest):
    """Schedulers: StepLR, which halves the rate each time that it acts."""

    PER_EPOCH = ["for epoch in range(3):", "    for x, y in loader:", "        step(trainer, model, x, y)", "    scheduler.step()",
                 "    print('rate', scheduler.get_last_lr()[0], optimizer.param_groups[0]['lr'])"]
    PER_STEP = ["for epoch in range(3):", "    for x, y in loader:", "        optimizer.zero_grad()",
                "        trainer.backward(loss_of(x, y))", "        optimizer.step()", "        scheduler.step()"]

    def test_it_acts_once_an_epoch_where_it_is_called_once_an_epoch(self):
        wanted = [0.01 * 0.5**epoch for epoch in range(3) for _ in range(STEPS_PER_EPOCH)]
        for slots in (1, 2):
            for word in ("", "scheduler_interval='epoch'"):
                with self.subTest(slots=slots, word=word):
                    run = f"epoch-{slots}-{len(word)}"
                    lines = self.said(run, [*scheduled(*filter(None, [word])), *self.PER_EPOCH], steps=15, slots=slots)
                    self.assertEqual(self.rates(run), wanted)
                    self.assertEqual([line for line in lines if line.startswith("rate")],
                                     [f"rate {rate} {rate}" for rate in (0.005, 0.0025, 0.00125)])

    def test_it_acts_once_a_step_where_it_is_called_once_a_step(self):
        for slots in (1, 2):
            for word in ("", "scheduler_interval='step'"):
                with self.subTest(slots=slots, word=word):
                    run = f"step-{slots}-{len(word)}"
                    self.said(run, [*scheduled(*filter(None, [word])), *self.PER_STEP], steps=15, slots=slots)
                    self.assertEqual(self.rates(run), [0.01 * 0.5**step for step in range(15)])

    def test_its_interval_is_kept_with_the_job(self):
        begin = [*scheduled(), "done = 0", "for x, y in loader:", "    step(trainer, model, x, y)", "    done += 1",
                 "    if done == 4:", "        trainer.close('enough')", "        sys.exit(0)"]
        with self.training_job("kept", "adamw", steps=15) as launch:
            with self.worker(self.address(launch), begin, "first") as first:
                self.assertEqual(first.wait(), 0, first.output)
            with self.worker(self.address(launch), [*scheduled("scheduler_interval='step'")], "other") as other:
                self.assertEqual(other.wait(), 0, other.output)
            with self.worker(self.address(launch), [*scheduled(), *self.PER_EPOCH], "second") as second:
                self.digest_at_end(launch, "kept", [second])
        self.assertRegex(other.output.splitlines()[-1], r'^Invalid: the job\'s StepLR acts once each epoch, and this script\'s once '
                                                        r'each step.*scheduler_interval="epoch"')
        self.assertEqual(self.rates("kept"), [0.01 * 0.5**epoch for epoch in range(3) for _ in range(STEPS_PER_EPOCH)])

    def test_calls_that_it_cannot_follow_are_refused_with_the_line_to_write(self):
        loop = ["for index, (x, y) in enumerate(loader):", "    step(trainer, model, x, y)"]
        told = "scheduler_interval='epoch'"
        own = [*STEP_LR, "model, optimizer, scheduler = trainer.prepare(model, optimizer, scheduler)", "x, y = training.data()[:32]"]
        cases = {
            "at every other step": ([*scheduled(), *loop, "    if index % 2 == 0: scheduler.step()"],
                                    r'^Invalid: StepLR.step\(\) was called after earlier calls.*scheduler_interval="step".*LambdaLR'),
            "after some steps": ([*scheduled(), *loop, "    if index % 3 == 2: scheduler.step()"],
                                 r'^Invalid: StepLR.step\(\) is called within an epoch.*scheduler_interval="step"'),
            "at each step, told otherwise": ([*scheduled(told), *loop, "    scheduler.step()"],
                                             r'^Invalid: StepLR.step\(\) is called within an epoch.*scheduler_interval="step"'),
            "before the first step": ([*scheduled(), "scheduler.step()", *loop], r"^Invalid: StepLR.step\(\) is called before the first"),
            "nowhere in a loop of its own": (
                [*own, *["trainer.backward(loss_of(x, y), 32)", "optimizer.step()"] * 2],
                r"^Invalid: StepLR.step\(\) is not called after optimizer.step\(\).*give prepare\(\) the loader"),
            "an epoch in a loop of its own": (
                [*STEP_LR, f"trainer.prepare(model, optimizer, scheduler, {told})"], "^Invalid: .*has no epochs; give prepare.. the loader"),
            "nowhere at all": ([*scheduled(), "for epoch in range(3):", *["    " + line for line in loop]],
                               r"^Invalid: StepLR.step\(\) was called neither after optimizer.step\(\) nor after the pass"),
            "another word": ([*scheduled("scheduler_interval='batch'")], r"^Invalid: scheduler_interval is 'batch'; wanted \"step\" or"),
            "made after prepare()": (
                [*PREPARE, "torch.optim.lr_scheduler.StepLR(optimizer, 1)"], r"^Invalid: a scheduler made after prepare\(\).*give it to prepare"),
            "made after prepare() besides another": (
                [*scheduled(), "lr_scheduler.StepLR(optimizer, 1)"], r"^Invalid: a scheduler made after prepare\(\)"),
            "ReduceLROnPlateau kept back": (
                [*BEGIN, "plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)", "trainer.prepare(model, optimizer, loader)"],
                "^Unsupported: ReduceLROnPlateau depends on what one process measures.*StepLR"),
            "ReduceLROnPlateau made after prepare()": (
                [*PREPARE, "plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)", *loop],
                "^Unsupported: ReduceLROnPlateau depends"),
        }
        for index, (name, (lines, said)) in enumerate(cases.items()):
            with self.subTest(name), self.training_job(f"refused-{index}", "adamw", steps=1000) as launch:
                self.assertRegex(self.said_by(self.address(launch), lines).splitlines()[-1], said)


# Lines that were left in from a script of plain PyTorch, and the answer to each. Only the last of these scripts ends a
# slot.
LEFT_OVER = {
    "a plain backward without a step": ([*PREPARE, "for x, y in loader: loss_of(x, y).backward()"],
                                        r"^Invalid: .*optimizer.step\(\) of the last one is missing"),
    "clipping of some gradients": (
        [*BATCH, "trainer.backward(loss_of(x, y))", "torch.nn.utils.clip_grad_norm_(model[0].parameters(), 0.5)"],
        r"^Unsupported: .*2 of the model's 6 gradients.*clip_grad_norm_\(model.parameters\(\), 0.5\)"),
    "a norm for a log": ([*BATCH, "trainer.backward(loss_of(x, y))", "print(model[0].weight.grad.norm())"],
                         r"^Unsupported: .*clip_grad_norm_\(model.parameters\(\), float\(\"inf\"\)\).*metrics as grad_norm.*autograd.grad"),
    "an update by hand": ([*BATCH, "trainer.backward(loss_of(x, y))",
                           "for p in model.parameters(): p.data.add_(p.grad, alpha=-0.1)"],
                          r"^Unsupported: .*update of the weights by hand.*optimizer.step\(\)"),
    "torch's GradScaler": ([*BATCH, "trainer.backward(loss_of(x, y))", "read = 'model[0].weight.grad.is_sparse'",
                            "eval(compile(read, torch.cuda.amp.grad_scaler.__file__, 'eval'))"],
                           r"^Unsupported: .*trainer.prepare\(model, optimizer, scaler\)"),
    "accumulation by hand": (
        [*PREPARE, "for index, (x, y) in enumerate(loader):", "    trainer.backward(loss_of(x, y))",
         "    if index % 2: optimizer.step()"], r"^Invalid: .*accumulated by the job: write optimizer.step\(\) after every batch, do not divide"),
    "accumulation by hand of pieces": (
        [*[line.replace("batch_size=32", "batch_size=16") for line in PREPARE], "for index, (x, y) in enumerate(loader):",
         "    trainer.backward(loss_of(x, y))", "    if index % 2: optimizer.step()"],
        r"^Invalid: .*accumulated by the job.*slots = 32"),
    "a loss that is divided": ([*BATCH, "trainer.backward(loss_of(x, y) / 2)"], r"^Invalid: the loss is a mean that was divided.*divided=False"),
    "a loss of a piece that is divided": (
        [*OWN_LOOP, "with trainer.accumulate(32): trainer.backward(loss_of(x[:16], y[:16]) / 2, 16)"],
        r"^Invalid: the loss is a mean that was divided.*accumulate\(samples, divided=True\)"),
    "a loss that is a sum": ([*BATCH, "trainer.backward(((model(x) - y)**2).sum())"], r'^Invalid: the loss is a sum.*reduction="sum"'),
    "a loss that is told to be a sum": (
        [*BATCH, "trainer.backward(torch.nn.functional.mse_loss(model(x), y, reduction='sum'))"], r'^Invalid: the loss is a sum.*reduction="sum"'),
    "another word for a reduction": ([*BATCH, "trainer.backward(loss_of(x, y), reduction='none')"], "^Invalid: .*wanted \"mean\" or \"sum\""),
    "two losses of a slot": ([*OWN_LOOP, "for _ in range(2): trainer.backward(loss_of(x, y), 32)"],
                             r"^Invalid: .*no_sync\(\).*trainer.accumulate\(samples\).*not to be divided.*divided=True"),
    "a batch that is passed over": ([*PREPARE, "for x, y in loader: continue"], r"^Invalid: .*write trainer.skip\(\) before `continue`"),
    "a layer that is frozen later": (
        [*BATCH, "model[0].weight.requires_grad_(False)", "trainer.backward(loss_of(x, y))"],
        r'^Invalid: parameter "0.weight" was frozen after prepare\(\).*freeze it before'),
    "a branch that is not taken": (
        [*BATCH, "trainer.backward(torch.nn.functional.mse_loss(model[4](model[3](x @ x.t() @ torch.ones(32, 24))), y))"],
        r'^Invalid: parameter "0.weight" has no gradient.*unused="zero"'),
    "an interval of no scheduler": (
        [*BEGIN, "trainer.prepare(model, optimizer, loader, scheduler_interval='epoch')"], "^Invalid: scheduler_interval.*given none"),
    "a rank before prepare()": (["torch.manual_seed(trainer.rank)"], r"^Invalid: this process has no number before prepare\(\)"),
    "a closure without a backward": ([*PREPARE, "optimizer.step(lambda: 0)"], r"^Invalid: optimizer.step\(\) comes after loss.backward\(\)"),
    "a second prepare()": ([*PREPARE, "trainer.prepare(model, optimizer)"], r"^Invalid: prepare\(\) comes once.*all loaders and models at once"),
    "two optimizers": ([*BEGIN, "trainer.prepare(model, optimizer, torch.optim.AdamW(model.parameters()))"],
                       r"^Invalid: .*two optimizers.*a group for each.*a trainer of its own"),
    "DDP": (
        [*BEGIN, "ddp = torch.nn.parallel.DistributedDataParallel", "model.__class__ = type('Wrapped', (ddp,), {'__init__': None})",
         "trainer.prepare(model, optimizer)"], r"^Invalid: .*DistributedDataParallel.*give it model.module"),
    "a criterion with parameters": (
        [*BEGIN, "criterion = torch.nn.PReLU()", "both = [*model.parameters(), *criterion.parameters()]",
         "trainer.prepare(model, torch.optim.AdamW(both))"], r"^Invalid: .*1 parameters that are not the model's.*prepare\(model, criterion, optimizer\)"),
    "a loop of its own without a model": ([*BEGIN, "trainer.prepare(optimizer)"], r"^Invalid: prepare\(\) wants a model and its optimizer"),
    "something else": ([*BEGIN, "trainer.prepare(model, optimizer, 3)"], r"^Invalid: prepare\(\) was given something of type int"),
    "a rate by the loop's counter": (
        [*OWN_LOOP, "count = 0", "while not trainer.done:", "    optimizer.param_groups[0]['lr'] = 0.01 / (1 + count)",
         "    step(trainer, model, x, y, 32)", "    count += 1"], r"^Invalid: the optimizer's numbers changed within step 0.*trainer.global_step"),
}


class LeftOverTest(TrapTest):
    def setUp(self):
        super().setUp()
        self.jobs = {}  # by what their workers load, their addresses

    def test_what_is_left_over_from_pytorch_alone_is_named_with_the_line_to_write(self):
        for index, (name, (lines, said)) in enumerate(LEFT_OVER.items()):
            with self.subTest(name):
                address = self.shared_job("batch_size=16" in " ".join(lines), lines[:len(OWN_LOOP)] == OWN_LOOP)
                self.assertRegex(self.said_by(address, lines, f"w{index}").splitlines()[-1], said)

    def shared_job(self, *loader):
        """Returns the address of a job for workers that end no step; those with the same loader share a job."""
        if loader not in self.jobs:
            launch = self.training_job(f"shared-{len(self.jobs)}", "adamw", steps=ENDLESS)
            self.enterContext(launch)
            self.jobs[loader] = self.address(launch)
        return self.jobs[loader]

    def test_a_scaler_that_is_switched_off_does_nothing(self):
        lines = [*PREPARE, "scaler = capstan.torch.GradScaler(trainer, enabled=False)", "for x, y in loader:",
                 "    trainer.backward(scaler.scale(loss_of(x, y)))", "    scaler.unscale_(optimizer)", "    scaler.step(optimizer)",
                 "    scaler.update()", "print(scaler.get_scale(), scaler.is_enabled())"]
        self.assertIn("1.0 False", self.said("off", lines, steps=2))

    def test_prepare_takes_its_things_in_any_order_and_leaves_other_loaders_alone(self):
        lines = [*STEP_LR, "validation = DataLoader(training.data(), batch_size=80)",
                 "scheduler, loader, optimizer, model, same = trainer.prepare(scheduler, loader, optimizer, model, validation)",
                 "print(same is validation, len(same))",
                 "for epoch in range(2):", "    for x, y in loader: step(trainer, model, x, y)", "    scheduler.step()",
                 "    print(sum(len(x) for x, y in same))"]
        lines = self.said("order", lines, steps=10)
        self.assertIn("True 4", lines)
        self.assertEqual(lines.count("320"), 2)

    def test_an_optimizer_with_the_step_of_its_base_and_frozen_parameters_is_its_base(self):
        lines = ["class Named(torch.optim.AdamW):", "    pass", "class Own(torch.optim.AdamW):",
                 "    def step(self, closure=None): return super().step(closure)", *BEGIN,
                 "model[0].weight.requires_grad_(False)", "before = model[0].weight.clone()",
                 "try: trainer.prepare(model, Own(model.parameters()), loader)", "except capstan.Error as error: print(error)",
                 "model, optimizer, loader = trainer.prepare(model, Named(model.parameters()), loader)",
                 "for x, y in loader: step(trainer, model, x, y)", "print('frozen', torch.equal(before, model[0].weight))"]
        lines = self.said("base", lines, steps=3)
        self.assertTrue(any("the servers do not run Own" in line for line in lines), lines)
        self.assertIn("frozen True", lines)


class AccumulationTest(TrapTest):
    """Slots of 32 samples in several pieces have the losses and weights of slots in one piece."""

    SLOTS = [*OWN_LOOP[:-1], "for slot in trainer.slots():", "    x, y = training.data()[slot.index * 32:slot.index * 32 + 32]"]

    def losses_of(self, run, lines):
        self.said(run, lines, steps=8)
        return self.losses(run)

    def test_divided_losses_and_sums_are_what_the_call_says(self):
        whole = self.losses_of("whole", [*self.SLOTS, "    trainer.backward(loss_of(x, y), 32)", "    optimizer.step()"])
        pieces = [*self.SLOTS, "    with trainer.accumulate(32, divided=True):", "        for part in (slice(0, 16), slice(16, 32)):",
                  "            trainer.backward(loss_of(x[part], y[part]) / 2, 16)", "    optimizer.step()"]
        self.assert_near(self.losses_of("divided", pieces), whole, 1e-5)
        loader = [*[line.replace("batch_size=32, shuffle=True", "batch_size=BATCH") for line in BEGIN],
                  "model, optimizer, loader = trainer.prepare(model, optimizer, loader)",
                  "for _ in trainer.epochs():", "    for x, y in loader:", "        optimizer.zero_grad()", "        trainer.backward(LOSS)",
                  "        optimizer.step()"]

        def by(batch, loss):
            return [line.replace("BATCH", str(batch)).replace("LOSS", loss) for line in loader]

        alone = self.losses_of("alone", by(32, "loss_of(x, y)"))
        self.assert_near(self.losses_of("halves", by(16, "loss_of(x, y) / 2, divided=True")), alone, 1e-5)
        self.assert_near(self.losses_of("ours", by(16, "loss_of(x, y) / 1")), alone, 1e-5)

    def test_a_sum_has_the_gradient_of_the_sum_over_the_global_batch_for_any_number_of_slots(self):
        lines = [*[line.replace("shuffle=True", "") for line in BEGIN], "optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)",
                 "model, optimizer, loader = trainer.prepare(model, optimizer, loader)",
                 "for _ in trainer.epochs():", "    for x, y in loader:", "        optimizer.zero_grad()",
                 "        trainer.backward(torch.nn.functional.mse_loss(model(x), y, reduction='sum'), reduction='sum')",
                 "        optimizer.step()", "print('weights', [round(v, 5) for v in model[4].weight[0, :4].tolist()])"]
        alone = ["model = training.network(5)", "optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)",
                 "for _ in range(2):", "    for x, y in DataLoader(training.data(), batch_size=64):", "        optimizer.zero_grad()",
                 "        torch.nn.functional.mse_loss(model(x), y, reduction='sum').backward()", "        optimizer.step()",
                 "print('weights', [round(v, 5) for v in model[4].weight[0, :4].tolist()])"]
        script = "\n".join([f"import sys; sys.path.insert(0, {HERE!r})", "import torch, torch_training as training",
                            "from torch.utils.data import DataLoader", *alone])
        with self.python("-c", script) as process:
            self.assertEqual(process.wait(), 0, process.output)
        wanted = numbers_in(process.output.splitlines()[-1])
        for slots in (1, 2, 4):
            said = self.said(f"sum-{slots}", lines, steps=10, slots=slots, optimizer="sgd")
            got = numbers_in(next(line for line in said if line.startswith("weights")))
            self.assertTrue(all(abs(a - b) < 1e-4 for a, b in zip(got, wanted)), (slots, got, wanted))
        self.assertLess(self.losses("sum-4")[0], 10, "the job shows the loss of a sample")

    def test_a_batch_may_be_skipped(self):
        """A skipped batch is a whole slot, a piece of one, or the last piece."""
        lines = [*PREPARE, "skipped = 0", "for epoch in range(9):", "    for index, (x, y) in enumerate(loader):",
                 "        if index % 4 == 3 or index == 0:", "            trainer.skip()", "            skipped += 1", "            continue",
                 "        step(trainer, model, x, y)", "print('skipped', skipped, trainer.global_step)"]
        self.assertIn("skipped 6 10", self.said("skip", lines, steps=10))
        pieces = [line.replace("batch_size=32", "batch_size=8") for line in lines]
        self.assertIn("skipped 22 10", self.said("skip-pieces", pieces, steps=10))

    def test_a_sum_and_a_skipped_batch_are_refused_together(self):
        """The servers divide by the samples that are reported, and a skipped batch reports none."""
        lines = [*PREPARE, "said = set()", "for epoch in range(9):", "    for index, (x, y) in enumerate(loader):",
                 "        if index == 0:", "            trainer.skip()", "            continue", "        try:",
                 "            trainer.backward(torch.nn.functional.mse_loss(model(x), y, reduction='sum'), reduction='sum')",
                 "        except capstan.errors.Invalid as error: said.add(str(error))",
                 "        step(trainer, model, x, y)", "print('refused', said)"]
        said = next(line for line in self.said("sum-skip", lines, steps=6) if line.startswith("refused"))
        self.assertIn('write trainer.backward(loss * 0, reduction="sum") in place of trainer.skip()', said)


def numbers_in(text):
    return [float(number) for number in re.findall(r"-?\d+\.\d+", text)]


class AsyncTest(TrapTest):
    """Mode async, in which each slot has a clock of its own."""

    def test_epochs_and_schedulers_are_those_of_a_slot_s_clock(self):
        lines = [*scheduled("scheduler_interval='epoch'"), "for epoch in range(2):", "    mains, batches = set(), 0",
                 "    for x, y in loader:", "        step(trainer, model, x, y)", "        batches += 1",
                 "        mains.add(trainer.is_main)", "    scheduler.step()", "    print('epoch', epoch, mains, batches)"]
        job = ("--set", 'job.mode="async"', "--set", "job.steps=10", "--set", 'optimizer.kind="adamw"', "--set", "job.slots=2")
        digits = os.path.join(own_workers.EXAMPLES, "pytorch", "digits.toml")
        for run, said in (("told", lines), ("found out", [*scheduled(), *lines[len(scheduled()):]])):
            with self.launch(digits, *job, run=run) as launch:
                with self.worker(self.address(launch), said) as worker:
                    self.digest_at_end(launch, run, [worker])
            self.assertEqual([line for line in worker.output.splitlines() if line.startswith("epoch")],
                             ["epoch 0 {True} 10", "epoch 1 {True} 10"], worker.output)

    def test_a_process_that_begins_late_has_to_be_told_the_interval(self):
        begin = [*scheduled("scheduler_interval='epoch'"), "for index, (x, y) in enumerate(loader):",
                 "    step(trainer, model, x, y)", "    if index == 4:", "        trainer.close('enough')", "        sys.exit(0)"]
        job = ("--set", 'job.mode="async"', "--set", "job.steps=10")
        with self.launch(os.path.join(own_workers.EXAMPLES, "pytorch", "digits.toml"), *job, run="late") as launch:
            address = self.address(launch)
            self.said_by(address, begin, "a")
            self.assertRegex(self.said_by(address, scheduled(), "b").splitlines()[-1],
                             r'^Invalid: the job is at step \d, and nothing says how often StepLR acts: .*scheduler_interval="step"')


class RankTest(TrapTest):
    SAYS = "print('rank', trainer.rank, trainer.ranks, trainer.is_main)"

    def test_an_index_of_launch_numbers_a_process_and_binds_nothing(self):
        lines = [*PREPARE, self.SAYS, "for x, y in loader: step(trainer, model, x, y)", self.SAYS]
        with self.training_job("index", "adamw", steps=3) as launch:
            with self.worker(self.address(launch), lines, CAPSTAN_INDEX="1", CAPSTAN_INDEXES="3") as worker:
                self.digest_at_end(launch, "index", [worker])
        self.assertEqual(worker.output.splitlines()[1:], ["rank 1 3 False"] * 2)
        with self.python("-c", "import capstan.torch; capstan.torch.connect('127.0.0.1:1')", CAPSTAN_INDEX="3",
                         CAPSTAN_INDEXES="3") as worker:
            worker.wait()
        self.assertIn("CAPSTAN_INDEX is '3' and CAPSTAN_INDEXES is '3'", worker.output)

    def test_a_process_with_a_rank_is_called_so_and_its_new_life_takes_over(self):
        lines = [*PREPARE, self.SAYS, "for x, y in loader: step(trainer, model, x, y)"]
        with self.training_job("ranks", "adamw", steps=ENDLESS, workers=2) as launch:
            address = self.address(launch)
            texts = [torch_worker_test.SCRIPT.replace("{name!r}", f"rank={rank}, ranks=2").format(
                folder=HERE, coordinator=address, lines="\n".join("        " + line for line in lines))
                for rank in (0, 1)]
            scripts = [self.write(f"rank{rank}.py", text) for rank, text in enumerate(texts)]
            with self.python(scripts[0]) as zero, self.python(scripts[1]) as one:
                launch.wait_for_line('"rank-0" joined')
                zero.wait_for_line("rank 0 2 True")
                one.wait_for_line("rank 1 2 False")
                with self.python(scripts[1]) as again:  # the one before is thought to be alive
                    again.wait_for_line("rank 1 2 False")


class EndTest(TrapTest):
    def test_a_loop_that_is_left_before_step_is_told_so_by_the_next_one(self):
        with self.training_job("before-step", "adamw", steps=ENDLESS) as launch:
            said = self.said_by(self.address(launch), [*PREPARE, "for x, y in loader:", "    trainer.backward(loss_of(x, y))",
                                                       "    break", "next(iter(loader))"])
        self.assertRegex(said.splitlines()[-1], r"^Invalid: .*optimizer.step\(\) of the last one is missing")

    def test_a_script_that_ends_before_the_job_is_told_so_at_once_and_so_is_the_launcher(self):
        loop = [*PREPARE, "for x, y in loader:", "    step(trainer, model, x, y)", "    if trainer.global_step == 2: break"]
        text = "\n".join(["import sys", f"sys.path.insert(0, {HERE!r})", "import capstan.torch, torch",
                          "import torch_training as training", "from torch.utils.data import DataLoader",
                          "def step(trainer, model, x, y):",
                          "    trainer.backward(torch.nn.functional.mse_loss(model(x), y))", "    trainer.step()",
                          "trainer = capstan.torch.connect(sys.argv[1], 'own')", *loop])
        for name, script in (("block", None), ("own", self.write("own.py", text))):
            with self.subTest(name), self.training_job(f"early-{name}", "adamw", steps=15) as launch:
                address = self.address(launch)
                worker = self.worker(address, loop) if script is None else self.python(script, address)
                with worker:
                    self.assertEqual(worker.wait(), 0, worker.output)
                self.assertRegex(worker.output.splitlines()[-1],
                                 r"the script ends at step 2 of the job's 15 \(0.4 of 3 epochs\).*set job.steps = 2; .*Ctrl-C")
                launch.wait_for_line("left: its script ended at step 2 of 15")

    def test_a_script_that_fails_is_not_told_to_go_on(self):
        with self.training_job("fails", "adamw", steps=15) as launch:
            with self.worker(self.address(launch), [*PREPARE, "raise KeyError('x')"]) as worker:
                self.assertEqual(worker.wait(), 1)
            launch.wait_for_line("left: KeyError ended it")
        self.assertNotIn("the script ends", worker.output)

    def test_a_loop_of_its_own_begins_where_the_job_is(self):
        begin = [*OWN_LOOP, "for _ in range(4): step(trainer, model, x, y, 32)", "trainer.close('enough')"]
        resumed = [line.replace("trainer.prepare(model, optimizer)", "trainer.prepare(model, optimizer, resumes=True)") for line in OWN_LOOP]
        with self.training_job("late", "adamw", steps=6) as launch:
            address = self.address(launch)
            self.said_by(address, begin, "a")
            said = self.said_by(address, [*OWN_LOOP, "step(trainer, model, x, y, 32)"], "b")
            self.assertRegex(said.splitlines()[-1], r"^Invalid: the job is at step 2, and this loop begins with its first batch: "
                                                    r".*trainer.global_step.*resumes=True.*trainer.slots\(\)")
            self.said_by(address, [*OWN_LOOP, "for slot in trainer.slots():", "    step(trainer, model, x, y, 32)",
                                   "    if trainer.global_step == 4: break", "trainer.close('enough')"], "c")
            self.said_by(address, [*resumed, "while not trainer.done: step(trainer, model, x, y, 32)"], "d")
            self.digest_at_end(launch, "late", [])

    def test_other_samples_than_the_global_batch_says_are_named_once(self):
        lines = [*OWN_LOOP, "for slot in trainer.slots(): step(trainer, model, x[:12], y[:12], 12)"]
        said = [line for line in self.said("few", lines, steps=3) if "job.global_batch" in line]
        self.assertEqual(len(said), 1)
        self.assertRegex(said[0], "slot 0 has 12 samples.*job.global_batch = 64 in 2 slots makes 32")


# The changes that a person makes to torch_cnn.py. The job's global batch holds all batches of an update, so the script
# does not accumulate gradients itself.
CNN_CHANGES = (
    ("import torch\nfrom torch import nn\n", "import capstan.torch\nimport torch\nfrom torch import nn\n"),
    ("ACCUMULATION = 2\n", "ACCUMULATION = 1\n"),
    ("best = 0.0\n", "trainer = capstan.torch.connect()\n"
                     "model, optimizer, train, scheduler = trainer.prepare(model, optimizer, train, scheduler)\n\nbest = 0.0\n"),
    ("    torch.save(", "    if trainer.is_main: torch.save("),
)
DIGITS = next((path for path in (os.path.join(HERE, "..", "..", "examples", "data", "digits.csv.gz"),
                                 "/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz") if os.path.exists(path)), None)


class CnnTest(TrapTest):
    """torch_cnn.py, a script as in many tutorials, converted by changing a few lines."""

    STEPS, EPOCHS = 240, 8

    def setUp(self):
        super().setUp()
        if DIGITS is None:
            skips.skip(self, "the digits are not there; install python3-sklearn")
        with open(os.path.join(HERE, "torch_cnn.py"), encoding="utf-8") as file:
            plain = file.read()
        converted = plain
        for line, ours in CNN_CHANGES:
            self.assertEqual(converted.count(line), 1, line)
            converted = converted.replace(line, ours)
        self.plain, self.converted = self.write("plain.py", plain), self.write("converted.py", converted)

    def cnn(self, coordinator, name):
        return self.python(self.converted, self.path(name), DIGITS=DIGITS, CAPSTAN_COORDINATOR=coordinator, CAPSTAN_WORKER=name)

    def job(self, run, workers, *more):
        settings = {"job.steps": self.STEPS, "job.global_batch": 40, "job.slots": 2, "optimizer.kind": '"momentum"',
                    "cluster.workers": workers, "limits.lease": harness.patient(2), "limits.join": harness.DEADLINE}
        return self.launch(os.path.join(own_workers.EXAMPLES, "pytorch", "digits.toml"),
                           *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")), run=run)

    def accuracy(self, worker):
        return float(re.search(r"best: ([\d.]+) %", worker.output).group(1))

    def epochs(self, worker):
        return [line.split(":", 1)[1] for line in worker.output.splitlines() if line.startswith("epoch ")]

    def test_it_learns_what_it_learns_in_pytorch_alone_in_one_process_and_in_two_of_which_one_dies(self):
        with self.python(self.plain, self.path("plain"), DIGITS=DIGITS) as worker:
            self.assertEqual(worker.wait(), 0, worker.output)
        alone = self.accuracy(worker)
        self.assertGreater(alone, 90)
        wanted = [re.search("rate (.*)", line).group(1) for line in self.epochs(worker)]
        with self.job("one", 1) as launch, self.cnn(self.address(launch), "one") as worker:
            one = self.digest_at_end(launch, "one", [worker])
        print(f"right: {alone} % alone, {self.accuracy(worker)} % with capstan")
        self.assertLessEqual(abs(self.accuracy(worker) - alone), 1.0)
        said = self.epochs(worker)
        self.assertEqual([re.search("rate (.*)", line).group(1) for line in said], wanted)
        self.assertTrue(all(line.startswith(" 60 of 60 batches") for line in said), said)
        with self.gate_in_mid_run() as held, self.job("killed", 2) as launch:
            address = self.address(launch)
            with self.cnn(address, "a") as a, self.cnn(address, "b") as b:
                self.kill_in_mid_run(b.pid, "killed")
                self.assertEqual(b.wait(), -signal.SIGKILL)
                held.open()
                self.assertEqual(self.digest_at_end(launch, "killed", [a]), one)
        self.assertEqual(self.digest_with_a_killed_server(self.cnn), one)
        rights = [re.search(r"(\d+) right", line).group(1) for line in said]
        self.assertEqual([re.search(r"(\d+) right", line).group(1) for line in self.epochs(a)], rights)
        self.assertEqual(self.accuracy(a), self.accuracy(worker))
        self.assertEqual(sum(os.path.exists(self.path(f"one-{epoch}.pt")) for epoch in range(self.EPOCHS)), self.EPOCHS)


if __name__ == "__main__":
    skips.main("torch")
