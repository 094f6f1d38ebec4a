#!/usr/bin/python3
"""Loops that stay as they are in plain PyTorch: the same lines run alone and in a job, and give the same numbers; one process
and two give the same bits."""
import os
import re

import own_workers
import skips
import torch_traps_test

HERE = os.path.dirname(os.path.abspath(__file__))
STEPS_PER_EPOCH = 5
TOLERANCE = 1e-6
# What PyTorch alone does without, and a job's script has.
PREPARE = "model, optimizer, loader = trainer.prepare(model, optimizer, loader)"
OWN = "model, optimizer = trainer.prepare(model, optimizer)"
MODEL = ["model = training.network(5)", "optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)",
         "criterion = torch.nn.MSELoss()"]
LOADER = [*MODEL, "loader = DataLoader(training.data(), batch_size=64)"]
END = ["print('weights', [v for p in model.parameters() for v in p.detach().reshape(-1)[:7].tolist()])"]
ALONE = ["import contextlib, sys", f"sys.path.insert(0, {HERE!r})", "import torch", "import torch_training as training",
         "from torch.utils.data import DataLoader", "torch.set_num_threads(1)"]


def numbers_in(line):
    return [float(number) for number in re.findall(r"-?\d+\.?\d*(?:e[-+]?\d+)?", line.split(" ", 1)[1])]


class IdiomsTest(torch_traps_test.TrapTest):
    def alone(self, lines):
        """Runs a script without capstan, and returns its lines of words and numbers."""
        with self.python("-c", "\n".join([*ALONE, *lines, *END])) as process:
            self.assertEqual(process.wait(), 0, process.output)
        return process.output.splitlines()

    def in_a_job(self, run, lines, workers=1, **setup):
        """Runs a script by `workers` processes; returns the digest of the final weights, and the lines of the first process."""
        with self.training_job(run, setup.pop("optimizer", "momentum"), workers=workers, **setup) as launch:
            address = self.address(launch)
            processes = [self.worker(address, [*lines, *END], name) for name in "abc"[:workers]]
            try:
                digest = self.digest_at_end(launch, run, processes)
            finally:
                for process in processes:
                    process.__exit__(None, None, None)
        return digest, processes[0].output.splitlines()

    def assert_same_numbers(self, got, wanted, tolerance=TOLERANCE):
        """Compares the lines that begin with a word and go on with numbers."""
        pick = [[line for line in lines if re.match(r"(weights|norm|rate|loss|said) ", line)] for lines in (got, wanted)]
        self.assertEqual([line.split()[0] for line in pick[0]], [line.split()[0] for line in pick[1]], got)
        self.assertTrue(any(line.startswith("weights") for line in pick[0]), got)
        worst = 0.0
        for ours, theirs in zip(*pick):
            a, b = numbers_in(ours), numbers_in(theirs)
            self.assertEqual(len(a), len(b), (ours, theirs))
            for x, y in zip(a, b):
                worst = max(worst, abs(x - y) / max(1.0, abs(y)))
                self.assertLessEqual(abs(x - y) / max(1.0, abs(y)), tolerance, (ours, theirs))
        return worst

    def same(self, run, lines, prepare=PREPARE, *, slots=(1, 2), **setup):
        """Runs lines with "PREPARE" in them alone and in jobs of 1 and 2 slots; and with 2 slots by two processes, which end
        with the bits of one. Returns the lines of the job of the most slots."""
        wanted = self.alone([line for line in lines if line.strip() != "PREPARE"])
        lines = [line.replace("PREPARE", prepare) for line in lines]
        setup.setdefault("steps", 2 * STEPS_PER_EPOCH)
        for count in slots:
            digest, got = self.in_a_job(f"{run}-{count}", lines, slots=count, **setup)
            worst = self.assert_same_numbers(got, wanted)
            print(f"{run}, {count} slots: {worst:.1e} from PyTorch alone")
            if count > 1:
                self.assertEqual(self.in_a_job(f"{run}-{count}-two", lines, workers=2, slots=count, **setup)[0], digest)
        return got

    def refused(self, lines, said, prepare=PREPARE, **setup):
        """Runs lines with "PREPARE" in them in an endless job, and looks at the error by which they end."""
        self.jobs = getattr(self, "jobs", 0) + 1
        setup.setdefault("slots", 1)
        with self.training_job(f"refused-{self.jobs}", setup.pop("optimizer", "momentum"), steps=own_workers.ENDLESS, **setup) as launch:
            output = self.said_by(self.address(launch), [line.replace("PREPARE", prepare) for line in lines])
        self.assertRegex(output.splitlines()[-1], said)


PLAIN_LOOP = ["for epoch in range(2):", "    for x, y in loader:", "        optimizer.zero_grad()",
              "        loss = criterion(model(x), y)", "        loss.backward()", "        optimizer.step()"]
BATCH = [*LOADER, "PREPARE", "x, y = next(iter(loader))"]


class BackwardTest(IdiomsTest):
    """loss.backward() as it stands."""

    def test_a_plain_loop_has_the_numbers_of_pytorch_and_the_job_has_its_losses(self):
        lines = [*LOADER, "PREPARE", *PLAIN_LOOP]
        self.same("plain", lines)
        explicit = [line.replace("loss.backward()", "trainer.backward(loss)").replace("PREPARE", PREPARE) for line in lines]
        digest, _ = self.in_a_job("explicit", explicit, slots=2, steps=10)
        self.assertEqual(self.in_a_job("once-more", [line.replace("PREPARE", PREPARE) for line in lines], slots=2, steps=10)[0], digest,
                         "trainer.backward(loss) and loss.backward() are one gradient")
        self.assertEqual(self.losses("plain-2"), self.losses("explicit"))

    def test_zero_grad_may_stand_anywhere_else_and_in_any_form(self):
        for index, (before, after) in enumerate((("optimizer.zero_grad(set_to_none=False)", ""), ("model.zero_grad()", ""),
                                                 ("", "optimizer.zero_grad()"), ("", "model.zero_grad(set_to_none=True)"),
                                                 ("for p in model.parameters(): p.grad = None", ""))):
            with self.subTest(before + after):
                loop = [line.replace("optimizer.zero_grad()", before or "pass") for line in PLAIN_LOOP]
                self.same(f"zero-{index}", [*LOADER, "PREPARE", *loop, f"        {after or 'pass'}"], slots=(2,))

    def test_a_batch_below_the_slot_s_share_is_a_piece(self):
        """The loader of the job has batches of 8 and 20; alone, PyTorch has the global batch."""
        wanted = self.alone([*LOADER, *PLAIN_LOOP])
        for size in (8, 20):
            lines = [line.replace("batch_size=64", f"batch_size={size}") for line in [*LOADER, PREPARE, *PLAIN_LOOP]]
            digest, got = self.in_a_job(f"pieces-{size}", lines, slots=2, steps=10)
            self.assert_same_numbers(got, wanted)
            self.assertEqual(self.in_a_job(f"pieces-{size}-two", lines, workers=2, slots=2, steps=10)[0], digest)

    def test_a_loop_without_a_loader_has_equal_slots(self):
        lines = [*MODEL, "PREPARE", "for step in range(10):", "    x, y = training.data()[:64]", "    loss = criterion(model(x), y)",
                 "    loss.backward()", "    optimizer.step()", "    optimizer.zero_grad(set_to_none=True)"]
        self.same("own", lines, OWN, slots=(1,))
        self.refused([*MODEL, "PREPARE", "x, y = training.data()[:64]", "criterion(model(x), y).backward()"],
                     r"^Invalid: job.global_batch = 65 in 2 slots.*multiple of the slots.*trainer.backward\(loss, samples\)", OWN,
                     slots=2, global_batch=65)

    def test_checkpointed_segments_are_passes_within_a_pass(self):
        lines = [*LOADER, "from torch.utils.checkpoint import checkpoint", "PREPARE",
                 *[line.replace("model(x)", "model[2:](checkpoint(model[:2], x.requires_grad_(), use_reentrant=REENTRANT))") for line in PLAIN_LOOP]]
        for reentrant in (True, False):
            self.same(f"checkpoint-{reentrant}", [line.replace("REENTRANT", str(reentrant)) for line in lines], slots=(2,))
        everything = [line.replace("model[2:](checkpoint(model[:2],", "(checkpoint(model,") for line in lines]
        self.same("checkpoint-all", [line.replace("REENTRANT", "True") for line in everything], slots=(2,))

    def test_gradients_that_the_script_takes_by_itself_are_not_the_job_s(self):
        loop = [*PLAIN_LOOP[:4], "        taken = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)",
                *PLAIN_LOOP[4:], "        print('norm', float(sum((g**2).sum() for g in taken)))"]
        self.same("taken", [*LOADER, "PREPARE", *loop], slots=(1,))

    def test_what_pytorch_would_add_up_is_refused(self):
        loop = [line for line in PLAIN_LOOP if "zero_grad" not in line]
        self.refused([*LOADER, "PREPARE", *loop], r'^Invalid: parameter "\d.\w+" still has the gradient of the step before.*zero_grad\(\)')
        self.refused([*BATCH, "criterion(model(x), y).backward()", "optimizer.zero_grad()", "optimizer.step()"],
                     r"^Invalid: the gradient of parameter .* was cleared between backward\(\) and optimizer.step\(\)")
        self.refused([*BATCH, "for _ in range(2): criterion(model(x), y).backward()"],
                     r"^Invalid: backward\(\) comes once for each batch.*no_sync\(\): loss.backward\(\)")
        self.refused([*MODEL, "PREPARE", "x, y = training.data()[:64]", "for _ in range(2): criterion(model(x), y).backward()"],
                     r"^Invalid: backward\(\) comes once before each step.*no_sync\(\).*require_backward_grad_sync", OWN)
        self.refused([*BATCH, "criterion(model(x), y).backward()", "optimizer.param_groups[0]['lr'] = 0.5", "optimizer.step()"],
                     r"^Invalid: the optimizer's numbers changed within step 0, after backward\(\).*before loss.backward\(\)")

    def test_a_sum_is_seen_in_a_plain_backward_too(self):
        self.refused([*BATCH, "torch.nn.functional.mse_loss(model(x), y, reduction='sum').backward()"],
                     r'^Invalid: the loss is a sum.*reduction="sum"', slots=2)

    def test_a_backward_that_an_exception_leaves_is_named(self):
        self.refused([*BATCH, "class Fails(torch.autograd.Function):", "    @staticmethod", "    def forward(c, x): return x * 1",
                      "    @staticmethod", "    def backward(c, g): raise RuntimeError('out of memory')",
                      "try: criterion(model[4](model[2:4](Fails.apply(model[:2](x)))), y).backward()", "except RuntimeError: pass",
                      "optimizer.step()"], r"^Invalid: backward\(\) was left by an exception")


class AccumulationTest(IdiomsTest):
    """Several backward() for an update, as scripts have them."""

    # karpathy/nanoGPT's micro-steps, in this test's words: two batches, divided losses, and a sync with the last.
    MICRO = ["optimizer.zero_grad(set_to_none=True)", "for step in range(10):", "    for micro in range(2):",
             "        SYNC", "        x, y = training.data()[32 * micro:32 * micro + 32]", "        loss = criterion(model(x), y) / 2",
             "        loss.backward()", "    optimizer.step()", "    optimizer.zero_grad(set_to_none=True)"]

    def test_micro_steps_with_the_attribute_of_ddp_or_no_sync(self):
        attribute = [line.replace("SYNC", "model.require_backward_grad_sync = micro == 1") for line in self.MICRO]
        self.same("attribute", [*MODEL, "PREPARE", *attribute], OWN, slots=(1,))
        wanted = self.alone([*MODEL, *[line.replace("SYNC", "pass") for line in self.MICRO]])
        for index, block in enumerate(("trainer.no_sync()", "model.no_sync()")):
            lines = [line.replace("SYNC", f"block = {block} if micro == 0 else contextlib.nullcontext()")
                     .replace("    loss.backward()", "    with block: loss.backward()") for line in self.MICRO]
            _, got = self.in_a_job(f"no-sync-{index}", [*MODEL, OWN, *lines], slots=1, steps=10)
            self.assert_same_numbers(got, wanted)
        self.assertGreater(self.losses("no-sync-0")[0], 0.3, "the job records the slot's loss")

    def test_a_loader_s_batches_that_the_script_adds_up(self):
        loop = ["for epoch in range(2):", "    for index, (x, y) in enumerate(loader):", "        loss = criterion(model(x), y) / 2",
                "        loss.backward()", "        if index % 2 == 1:", "            optimizer.step()", "            optimizer.zero_grad()"]
        lines = [line.replace("batch_size=64", "batch_size=32") for line in [*LOADER, "PREPARE", *loop]]
        self.same("by-hand", lines, slots=(1,))
        # Two slots of two batches have the gradient of one slot of four.
        four = [line.replace("/ 2", "/ 4").replace("% 2 == 1", "% 4 == 3").replace("batch_size=32", "batch_size=16") for line in lines]
        wanted = self.alone([line for line in four if line != "PREPARE"])
        two = [line.replace("batch_size=32", "batch_size=16").replace("PREPARE", PREPARE) for line in lines]
        digest, got = self.in_a_job("by-hand-of-two", two, slots=2, steps=10)
        self.assert_same_numbers(got, wanted)
        self.assertEqual(self.in_a_job("by-hand-two", two, workers=2, slots=2, steps=10)[0], digest)
        self.assert_near(self.losses("by-hand-of-two"), self.losses("by-hand-two"), 0.0)

    def test_accumulates_gives_each_slot_as_many_batches_as_the_loop_adds_up(self):
        loop = ["for epoch in range(2):", "    for index, (x, y) in enumerate(loader):", "        loss = criterion(model(x), y) / 2",
                "        loss.backward()", "        if index % 2 == 1:", "            optimizer.step()", "            optimizer.zero_grad()"]
        prepare = PREPARE.replace("loader)", "loader, accumulates=2)")
        lines = [line.replace("batch_size=64", "batch_size=32") for line in [*LOADER, "PREPARE", *loop]]
        self.same("accumulates", lines, prepare)
        self.refused([line.replace("batch_size=32", "batch_size=16") for line in lines],
                     r"^Invalid: the loop accumulates 2 batches.*batch_size is 16.*batch_size=16, and set job.global_batch = 32", prepare)
        part = [line.replace("training.data()", "torch.utils.data.Subset(training.data(), range(300))") for line in lines]
        self.refused(part, r"^Invalid: the loop accumulates 2 batches, and the last 44 of an epoch's 300.*range\(256\)", prepare)
        self.refused([line.replace("batch_size=32", "batch_size=32, drop_last=True") for line in part],
                     r"^Invalid: the loop accumulates 2 batches, and the last 32 of an epoch's 288.*range\(256\)", prepare)

    def test_rest_of_slot_shows_batches_that_come(self):
        lines = [*LOADER, "PREPARE", "for x, y in loader:", "    rest = loader.rest_of_slot()", "    kept = [x.clone() for x, _ in rest]",
                 "    print('said', len(rest), [(seen == now).all().item() * 1 for seen, now in zip(globals().get('last', [])[:1], [x])])",
                 "    last = kept", "    criterion(model(x), y).backward()", "    optimizer.step()", "    optimizer.zero_grad()"]
        lines = [line.replace("batch_size=64", "batch_size=16").replace("PREPARE", PREPARE) for line in lines]
        _, got = self.in_a_job("rest", lines, slots=1, steps=5)
        self.assertEqual([line for line in got if line.startswith("said")], ["said 3 []", "said 2 [1]", "said 1 [1]", "said 0 [1]"] +
                         ["said 3 []", "said 2 [1]", "said 1 [1]", "said 0 [1]"] * 4)

    def test_two_losses_of_a_batch(self):
        loop = [*PLAIN_LOOP[:3], "        with BLOCK: (model(x)**2).mean().backward()", *PLAIN_LOOP[3:]]
        wanted = self.alone([*LOADER, *[line.replace("BLOCK", "contextlib.nullcontext()") for line in loop]])
        _, got = self.in_a_job("losses", [*LOADER, PREPARE, *[line.replace("BLOCK", "trainer.no_sync()") for line in loop]], slots=1, steps=10)
        self.assert_same_numbers(got, wanted)

    def test_a_gradient_that_zero_grad_discards_within_no_sync_is_nothing(self):
        loop = [*PLAIN_LOOP[:2], "        with BLOCK: (model(x)**2).mean().backward()", *PLAIN_LOOP[2:]]
        wanted = self.alone([*LOADER, *[line.replace("BLOCK", "contextlib.nullcontext()") for line in loop]])
        _, got = self.in_a_job("discarded", [*LOADER, PREPARE, *[line.replace("BLOCK", "trainer.no_sync()") for line in loop]], slots=1, steps=10)
        self.assert_same_numbers(got, wanted)

    def test_groups_that_are_no_slot_are_refused(self):
        loop = ["for index, (x, y) in enumerate(loader):", "    criterion(model(x), y).backward()", "    if index % 3 == 2:",
                "        optimizer.step()", "        optimizer.zero_grad()"]
        lines = [line.replace("batch_size=64", "batch_size=16") for line in [*LOADER, "PREPARE", *loop]]
        self.refused(lines, r"^Invalid: optimizer.step\(\) does not come with the last batch of a slot.*job.global_batch is to be slots times")
        self.refused([*MODEL, "PREPARE", "x, y = training.data()[:64]", "with trainer.no_sync(): criterion(model(x), y).backward()",
                      "optimizer.step()"], r"^Invalid: optimizer.step\(\) comes after a backward\(\) within no_sync\(\)", OWN)
        self.refused([*BATCH, "with trainer.no_sync(): trainer.backward(criterion(model(x), y))"],
                     r"^Invalid: trainer.backward\(\) within no_sync\(\): write loss.backward\(\)")

    def test_a_model_with_no_sync_is_copied_and_saved(self):
        """What is saved can be loaded without capstan."""
        saved = self.path("model.pt")
        lines = [*LOADER, PREPARE, "import copy", "other = copy.deepcopy(model)", "assert other.no_sync is model.no_sync",
                 *PLAIN_LOOP, f"torch.save(model, {saved!r})"]
        self.in_a_job("saved", lines, slots=1, steps=10)
        read = ["import sys, torch", f"model = torch.load({saved!r}, weights_only=False)", "with model.no_sync(): print(sum(p.numel() for p in model.parameters()))",
                "print('capstan' in sys.modules)"]
        with self.new_python("-c", "\n".join(read)) as process:
            self.assertEqual(process.wait(), 0, process.output)
        self.assertEqual(process.output.split()[-2:], ["937", "False"])


CLIP = "        print('norm', float(torch.nn.utils.clip_grad_norm_(model.parameters(), LIMIT)))"


def clipped(limit, line=CLIP):
    return [*PLAIN_LOOP[:5], line.replace("LIMIT", str(limit)), PLAIN_LOOP[5]]


class ClipTest(IdiomsTest):
    """clip_grad_norm_() and clip_grad_value_() as they stand."""

    def test_the_norm_is_the_job_s_and_what_pytorch_returns(self):
        for index, limit in enumerate((0.3, "float('inf')")):
            lines = [*LOADER, PREPARE, *clipped(limit)]
            wanted = self.alone([*LOADER, *clipped(limit)])
            _, got = self.in_a_job(f"norm-{index}", lines, slots=1, steps=10)
            self.assert_same_numbers(got, wanted)
            digest, one = self.in_a_job(f"norm-{index}-one", lines, slots=2, steps=10)
            self.assert_same_numbers([line for line in one if line.startswith("weights")],
                                     [line for line in wanted if line.startswith("weights")])
            again, two = self.in_a_job(f"norm-{index}-two", lines, workers=2, slots=2, steps=10)
            self.assertEqual(again, digest)
            self.assert_same_numbers(two, wanted)
            # The first slot of a round has the norm of the step before.
            norms = [numbers_in(line)[0] for line in one if line.startswith("norm")]
            self.assertEqual(norms[0], 0.0)
            self.assertEqual(norms[1:-2:2], norms[2:-1:2])

    def test_a_scheduler_that_acts_in_its_time_and_clipping(self):
        loop = ["scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.7)", "PREPARE", *clipped(0.3), "        scheduler.step()"]
        wanted = self.alone([*LOADER, *[line for line in loop if line != "PREPARE"]])
        prepare = "model, optimizer, loader, scheduler = trainer.prepare(model, optimizer, loader, scheduler)"
        for index, line in enumerate((prepare, prepare.replace("scheduler)", "scheduler, scheduler_interval='step')"))):
            _, got = self.in_a_job(f"scheduled-{index}", [*LOADER, *[each.replace("PREPARE", line) for each in loop]], slots=1, steps=10)
            if index == 0:  # the first step cannot end before the script shows when its scheduler acts
                self.assertEqual([line for line in got if line.startswith("norm")][0], "norm 0.0")
                got, same = ([line for line in lines if line != first] for lines, first in ((got, "norm 0.0"), (wanted, wanted[0])))
                self.assert_same_numbers(got, same)
            else:
                self.assert_same_numbers(got, wanted)

    def test_values_are_clipped_in_the_mean_gradient(self):
        line = "        torch.nn.utils.clip_grad_value_(model.parameters(), 0.01)"
        self.same("values", [*LOADER, "PREPARE", *clipped(0, line)])

    def test_accumulated_gradients_are_clipped_once(self):
        micro = [line.replace("SYNC", "model.require_backward_grad_sync = micro == 1") for line in AccumulationTest.MICRO]
        at = micro.index("    optimizer.step()")
        micro[at:at] = ["    print('norm', float(torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)))"]
        _, got = self.in_a_job("micro", [*MODEL, OWN, *micro], slots=1, steps=10)
        self.assert_same_numbers(got, self.alone([*MODEL, *micro]))

    def test_limits_may_differ_from_step_to_step(self):
        sometimes = [*PLAIN_LOOP[:5], "        if epoch == 1: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)", PLAIN_LOOP[5]]
        self.same("sometimes", [*LOADER, "PREPARE", *sometimes])
        loop = ["count = 0", *PLAIN_LOOP[:5], "        count += 1", "        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3 + 0.1 * count)", PLAIN_LOOP[5]]
        self.same("differ", [*LOADER, "PREPARE", *loop], slots=(1,))
        self.refused([*LOADER, "PREPARE", *loop], r"^Invalid: slot 1 of step 0 has max_norm=0.5, and a slot before it max_norm=0.4: .*trainer.global_step",
                     slots=2)

    def test_a_step_whose_norm_is_not_finite_is_left_out_by_the_script_and_the_job(self):
        loop = ["for epoch in range(2):", "    for index, (x, y) in enumerate(loader):", "        optimizer.zero_grad()",
                "        loss = criterion(model(x), y) * (float('inf') if epoch == 0 and index == 2 else 1.0)", "        loss.backward()",
                "        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)", "        if torch.isfinite(norm): optimizer.step()"]
        self.same("finite", [*LOADER, "PREPARE", *loop], slots=(1,), on_nonfinite="skip")
        self.assertEqual([record["action"] for record in self.metrics("finite-1")], ["apply"] * 2 + ["skip"] + ["apply"] * 7)

    def test_what_servers_would_clip_otherwise_is_refused(self):
        backward = [*BATCH, "criterion(model(x), y).backward()"]
        cases = {
            "torch.nn.utils.clip_grad_norm_(model[0].parameters(), 0.3)":
                r"^Unsupported: clip_grad_norm_\(\) was given 2 of the model's 6 gradients.*clip_grad_norm_\(model.parameters\(\), 0.3\)",
            "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3, norm_type=1)":
                r"^Unsupported: clip_grad_norm_\(\) with norm_type=1.0.*leave norm_type out",
            "torch.nn.utils.clip_grad_norm_(model.parameters(), float('inf'), norm_type=float('inf'))": "^Unsupported: .*norm_type=inf",
            "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.0)": r"^Invalid: clip_grad_norm_\(\): a limit of 0.0",
            "torch.nn.utils.clip_grad_value_(model[0].parameters(), 0.3); optimizer.step()":
                r"^Unsupported: clip_grad_value_\(\) was given 2 of the model's 6 gradients",
            "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3); next(iter(loader))":
                r"^Invalid: clip_grad_norm_\(\) returned a finite norm, and optimizer.step\(\) did not follow",
        }
        for line, said in cases.items():
            with self.subTest(line):
                self.refused([*backward, line], said)
        self.refused([*backward, "torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)"],
                     r"^Invalid: .*max_norm=0.3, and the job file has optimizer.clip_norm = 0.5: leave one of them out", clip_norm=0.5)


class LoaderTest(IdiomsTest):
    """Loaders and samplers of the script's."""

    def test_len_and_enumerate_and_a_wrapper_of_the_loader(self):
        loop = [*PLAIN_LOOP[:1], "    for index, (x, y) in enumerate(bar(loader)):", *PLAIN_LOOP[2:], "        print('said', index, len(loader))"]
        lines = [*LOADER, "class bar:", "    def __init__(self, it): self.it, self.total = it, len(it)",
                 "    def __iter__(self):", "        for item in self.it: yield item", "PREPARE", *loop]
        self.same("wrapped", lines, slots=(1,))

    def test_the_sampler_of_ddp_gives_its_order_and_set_epoch_is_heard(self):
        lines = [*MODEL, "from torch.utils.data.distributed import DistributedSampler",
                 "sampler = DistributedSampler(training.data(), num_replicas=1, rank=0, seed=3)",
                 "loader = DataLoader(training.data(), batch_size=64, sampler=sampler)", "PREPARE", PLAIN_LOOP[0],
                 "    SET", *PLAIN_LOOP[1:]]
        for index, call in enumerate(("sampler.set_epoch(epoch)", "loader.sampler.set_epoch(epoch)")):
            self.same(f"distributed-{index}", [line.replace("SET", call) for line in lines])

    def test_samplers_without_chance_and_batch_samplers_have_their_own_order(self):
        own = ["class Backwards(torch.utils.data.Sampler):", "    def __init__(self): pass", "    def __len__(self): return 256",
               "    def __iter__(self): return iter(range(255, -1, -1))"]
        for name, loader in (("sampler", "DataLoader(training.data(), batch_size=64, sampler=Backwards())"),
                             ("batches", "DataLoader(training.data(), batch_sampler=torch.utils.data.BatchSampler(Backwards(), 64, False))"),
                             ("list", "DataLoader(training.data(), batch_size=64, sampler=list(range(100, 228)) * 2)")):
            self.same(name, [*MODEL, *own, f"loader = {loader}", "PREPARE", *PLAIN_LOOP], steps=8)

    def test_a_sampler_that_draws_is_drawn_once_an_epoch_with_the_job_s_seeds(self):
        """PyTorch alone has the orders that the job draws."""
        make = ["weights = [0.0] * 20 + [1.0] * 100 + [3.0] * 200",
                "sampler = torch.utils.data.WeightedRandomSampler(weights, 320GENERATOR)",
                "loader = DataLoader(training.data(), batch_size=64, sampler=sampler)"]
        for index, generator in enumerate(("", ", generator=torch.Generator()")):
            lines = [line.replace("GENERATOR", generator) for line in make]
            alone = [*MODEL, *lines, "from capstan.torch.orders import order_of", "order = order_of(loader, 1)",
                     "orders = [order.of(epoch) for epoch in range(2)]", "print(min(orders[0]), orders[0] != orders[1])",
                     "state = torch.get_rng_state()", "order.of(0)", "print(torch.equal(state, torch.get_rng_state()))",
                     *[line.replace("in loader", "in DataLoader(training.data(), batch_size=64, sampler=orders[epoch])") for line in PLAIN_LOOP]]
            wanted = self.alone(alone)
            self.assertRegex("\n".join(wanted), r"(2\d|[3-9]\d) True\nTrue")
            digest, got = self.in_a_job(f"weighted-{index}", [*MODEL, *lines, PREPARE, *PLAIN_LOOP], slots=2, steps=10)
            self.assert_same_numbers(got, wanted)
            self.assertEqual(self.in_a_job(f"weighted-{index}-two", [*MODEL, *lines, PREPARE, *PLAIN_LOOP], workers=2, slots=2, steps=10)[0], digest)

    def test_loaders_that_cannot_be_shared_out_are_refused(self):
        stateful = ["class Counts(torch.utils.data.Sampler):", "    def __init__(self): self.count = 0", "    def __len__(self): return 64",
                    "    def __iter__(self):", "        self.count += 1", "        return iter(range(self.count, self.count + 64))"]
        shares = ["from torch.utils.data.distributed import DistributedSampler", "class Mine(DistributedSampler):",
                  "    def __iter__(self): return super().__iter__()"]
        short = ["class Short(torch.utils.data.Sampler):", "    def __init__(self): pass", "    def __len__(self): return 64",
                 "    def __iter__(self): return iter(range(63))"]
        stream = ["class Stream(torch.utils.data.IterableDataset):", "    def __iter__(self): return iter(training.data())"]
        bucket = ["class Buckets:", "    def __len__(self): return 1", "    def __iter__(self): return iter([list(range(64))])"]
        numbers = r"has no samples by number .*leave it out of prepare\(\).*trainer.rank.*trainer.slots\(\)"
        for begin, loader, said in (
                (stateful, "training.data(), batch_size=64, sampler=Counts()", r"^Unsupported: the loader's Counts gives another order.*set_epoch\(\)"),
                (shares, "training.data(), batch_size=64, sampler=Mine(training.data(), 1, 0)", "^Unsupported: the loader's Mine takes a share"),
                (short, "training.data(), batch_size=64, sampler=Short()", "^Invalid: the loader's Short says that it gives 64 samples, and gave 63"),
                (stream, "Stream(), batch_size=64", f"^Unsupported: the loader {numbers}"),
                (bucket, "training.data(), batch_sampler=Buckets()", f"^Unsupported: the loader {numbers}")):
            with self.subTest(loader):
                self.refused([*MODEL, *begin, f"loader = DataLoader({loader})", "PREPARE"], said)


class RateTest(IdiomsTest):
    """Numbers of the optimizer that change."""

    def test_numbers_that_the_script_sets_before_backward(self):
        loop = ["step = 0", *PLAIN_LOOP[:2], "        optimizer.param_groups[0].update(lr=0.05 / (1 + step), momentum=0.9 - 0.02 * step, weight_decay=0.01 * step)",
                *PLAIN_LOOP[2:], "        step += 1"]
        wanted = self.alone([*LOADER, *loop])
        digest, got = self.in_a_job("by-hand", [*LOADER, PREPARE, *loop], slots=1, steps=10)
        self.assert_same_numbers(got, wanted)
        _, got = self.in_a_job("by-hand-two", [*LOADER, PREPARE, *loop], workers=2, slots=2, steps=10)
        self.assert_same_numbers(got, wanted)

    def test_schedulers_of_each_step_and_each_epoch(self):
        prepare = "model, optimizer, loader, scheduler = trainer.prepare(model, optimizer, loader, scheduler)"
        for name, make, indent in (
                ("cycle", "s.OneCycleLR(optimizer, 0.1, total_steps=10)", 8),
                ("sequence", "s.SequentialLR(optimizer, [s.LinearLR(optimizer, 0.1, total_iters=4), s.CosineAnnealingLR(optimizer, 6)], [4])", 8),
                ("lambda", "s.LambdaLR(optimizer, lambda step: 0.9**step)", 8),
                ("epoch", "s.ExponentialLR(optimizer, 0.5)", 4)):
            lines = [*LOADER, "from torch.optim import lr_scheduler as s", f"scheduler = {make}", "PREPARE", *PLAIN_LOOP, " " * indent + "scheduler.step()",
                     "print('rate', scheduler.get_last_lr()[0])"]
            self.same(name, lines, prepare)

    def test_a_scheduler_that_is_loaded_before_prepare_goes_on_and_later_it_is_refused(self):
        begin = ["scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.5)", "state = {**scheduler.state_dict(), 'last_epoch': 3}",
                 "scheduler.load_state_dict(state)"]
        prepare = "model, optimizer, loader, scheduler = trainer.prepare(model, optimizer, loader, scheduler)"
        self.same("loaded", [*LOADER, *begin, "PREPARE", *PLAIN_LOOP, "        scheduler.step()"], prepare)
        self.refused([*LOADER, begin[0], "PREPARE", "scheduler.load_state_dict({})"], "^Unsupported: the scheduler's state is the job's.*--resume", prepare)


class ModelTest(IdiomsTest):
    """Models, and what a script does with them between its steps."""

    def test_several_forward_passes_and_an_evaluation_in_between(self):
        loop = [*[line.replace("criterion(model(x), y)", "criterion(model(x), y) + 0.1 * criterion(model(x + 1), y)") for line in PLAIN_LOOP],
                "    model.eval()", "    with torch.no_grad(): print('loss', float(criterion(model(training.data()[:][0]), training.data()[:][1])))",
                "    model.to('cpu').float().train()"]
        self.same("evaluated", [*LOADER, "PREPARE", *loop])

    def test_tied_and_frozen_parameters(self):
        begin = [*LOADER, "model[2].bias.requires_grad_(False)", "class Tied(torch.nn.Module):", "    def __init__(self):", "        super().__init__()",
                 "        self.net = model", "        self.head = torch.nn.Linear(24, 24, bias=False)", "        self.head.weight = model[2].weight",
                 "    def forward(self, x): return self.net[4](torch.tanh(self.head(torch.tanh(self.net[:4](x)))))", "model = Tied()",
                 "optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05, momentum=0.9)"]
        self.same("tied", [*begin, "PREPARE", *PLAIN_LOOP])

    def test_a_part_that_is_not_used_is_left_out_where_the_script_says_so(self):
        loop = [line.replace("model(x)", "(model(x) if epoch == 0 else model[4](model[:2](x)))") for line in PLAIN_LOOP]
        lines = [*LOADER, "optimizer = torch.optim.SGD(model.parameters(), lr=0.05)", "PREPARE", *loop]
        self.same("unused", lines, PREPARE.replace("loader)", "loader, unused='zero')"), optimizer="sgd")
        pieces = ["for epoch in range(2):", "    for index, (x, y) in enumerate(loader):", "        optimizer.zero_grad()",
                  "        loss = criterion(model(x) if index % 2 == 0 else model[4](model[:2](x)), y)", "        loss.backward()", "        optimizer.step()"]
        whole = [line.replace("criterion(model(x) if index % 2 == 0 else model[4](model[:2](x)), y)",
                              "(criterion(model(x[:32]), y[:32]) + criterion(model[4](model[:2](x[32:])), y[32:])) / 2") for line in pieces]
        wanted = self.alone([*lines[:len(LOADER) + 1], *whole])
        prepare = [PREPARE.replace("loader)", "loader, unused='zero')")]
        _, got = self.in_a_job("unused-piece", [*[line.replace("64", "32") for line in lines[:len(LOADER) + 1]], *prepare, *pieces], slots=1, steps=10, optimizer="sgd")
        self.assert_same_numbers(got, wanted)
        self.refused(lines, r"""^Invalid: parameter "2.weight" has no gradient in slot 0 of step 5: .*unused="zero\"""", optimizer="sgd")

    def test_batch_norm_learns_the_statistics_of_pytorch(self):
        begin = [*LOADER, "torch.manual_seed(6)", "model = torch.nn.Sequential(torch.nn.Linear(12, 24, bias=False), torch.nn.BatchNorm1d(24), torch.nn.Tanh(), torch.nn.Linear(24, 1))",
                 "optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)"]
        self.same("norm", [*begin, "PREPARE", *PLAIN_LOOP, "print('said', model[1].running_mean.tolist(), model[1].running_var.tolist())"], slots=(1,))

    def test_several_models_with_one_optimizer_and_a_criterion_with_parameters(self):
        begin = [*LOADER, "actor, critic, criterion = model[:3], model[3:], torch.nn.PReLU()", "mse = torch.nn.MSELoss()",
                 "optimizer = torch.optim.SGD([*model.parameters(), *criterion.parameters()], lr=0.05, momentum=0.9)"]
        loop = [line.replace("criterion(model(x), y)", "mse(criterion(critic(actor(x))), y)") for line in PLAIN_LOOP]
        prepare = "actor, critic, optimizer, loader, criterion = trainer.prepare(actor, critic, optimizer, loader, criterion)"
        self.same("several", [*begin, "PREPARE", *loop, "print('said', float(criterion.weight))"], prepare)

    GAN = ["torch.manual_seed(3)", "g, d, bce = torch.nn.Linear(4, 12), training.network(5), torch.nn.BCEWithLogitsLoss()",
           "og, od = (torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9) for m in (g, d))", "PREPARE",
           "x, draws = training.data()[:64][0], torch.Generator().manual_seed(1)", "for step in range(10):",
           "    made = g(torch.randn(64, 4, generator=draws))", "    od.zero_grad()", "    with BLOCK: bce(d(x), torch.ones(64, 1)).backward()",
           "    bce(d(made.detach()), torch.zeros(64, 1)).backward()", "    od.step()", "    og.zero_grad()",
           "    with BLOCK: bce(d(made), torch.ones(64, 1)).backward()", "    og.step()", "model = torch.nn.ModuleList([g, d])"]

    def test_two_models_that_take_turns_are_two_jobs(self):
        wanted = self.alone([line.replace("BLOCK", "contextlib.nullcontext()") for line in self.GAN if line != "PREPARE"])
        with self.training_job("d", "momentum", slots=1, steps=10) as first, self.training_job("g", "momentum", slots=1, steps=10) as second:
            prepare = ["d, od = trainer.prepare(d, od)", f"other = capstan.torch.connect({self.address(second)!r}, 'g')", "g, og = other.prepare(g, og)"]
            lines = [new for line in self.GAN for new in (prepare if line == "PREPARE" else [line.replace("BLOCK", "trainer.no_sync()")])]
            with self.worker(self.address(first), [*lines, *END]) as process:
                self.digest_at_end(first, "d", [process])
                self.assertEqual(second.wait(), 0, second.output)
        self.assert_same_numbers(process.output.splitlines(), wanted)

    def test_a_step_with_a_closure(self):
        loop = [*PLAIN_LOOP[:2], "        def closure():", "            optimizer.zero_grad()", "            loss = criterion(model(x), y)",
                "            loss.backward()", "            return loss", "        print('loss', float(optimizer.step(closure)))"]
        self.same("closure", [*LOADER, "PREPARE", *loop], slots=(1,))
        self.refused([*LOADER, "optimizer = torch.optim.LBFGS(model.parameters())", "PREPARE"], "^Unsupported: the servers do not run LBFGS")

    def test_what_the_job_does_not_take_up_is_refused(self):
        stepped = ["x, y = training.data()[:64]", "criterion(model(x), y).backward()", "optimizer.step()", "optimizer.zero_grad()"]
        cases = {
            "an optimizer that has stepped": ([*LOADER, *stepped, "PREPARE"], "^Unsupported: SGD has taken steps already.*fresh one.*--resume"),
            "an optimizer's state": ([*LOADER, "PREPARE", "optimizer.load_state_dict(optimizer.state_dict())"], "^Unsupported: the servers have the optimizer's state.*--resume"),
            "a group that comes later": ([*LOADER, "PREPARE", "optimizer.add_param_group({'params': [torch.nn.Parameter(torch.ones(1))]})"],
                                         r"^Unsupported: .*give prepare\(\) all of them"),
            "a layer that is unfrozen": ([*LOADER, "model[0].requires_grad_(False)", "optimizer = torch.optim.SGD(model[2:].parameters(), lr=0.05, momentum=0.9)",
                                          "PREPARE", "model[0].requires_grad_(True)", *PLAIN_LOOP], "^Invalid: .*was unfrozen after prepare.*group of the optimizer with lr=0"),
            "two optimizers": ([*LOADER, "trainer.prepare(model, optimizer, torch.optim.SGD(model.parameters(), lr=1))"], "^Invalid: .*two optimizers.*trainer of its own"),
            "ReduceLROnPlateau": ([*LOADER, "trainer.prepare(model, optimizer, loader, torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer))"],
                                  "^Unsupported: ReduceLROnPlateau depends on what one process measures.*LambdaLR"),
            "a gradient that is read": ([*BATCH, "criterion(model(x), y).backward()", "model[0].weight.grad.norm()"],
                                        r"^Unsupported: the gradients have left.*clip_grad_norm_\(model.parameters\(\), float\(.inf.\)\)"),
            "a clip_grad_norm_() of the script's own": (
                [*BATCH, "criterion(model(x), y).backward()", "def clip_grad_norm_(parameters, max_norm):",
                 "    return torch.norm(torch.stack([p.grad.norm(1) for p in parameters]))", "clip_grad_norm_(model.parameters(), 1.0)"],
                "^Unsupported: the gradients have left"),
            "an update by hand": ([*BATCH, "criterion(model(x), y).backward()", "for p in model.parameters(): p.data.add_(p.grad, alpha=-0.1)"],
                                  r"^Unsupported: .*update of the weights by hand.*optimizer.step\(\)"),
        }
        for name, (lines, said) in cases.items():
            with self.subTest(name):
                self.refused(lines, said)

    def test_a_prepared_model_is_not_wrapped(self):
        with self.training_job("module", "momentum", steps=own_workers.ENDLESS) as launch:
            with self.worker(self.address(launch), [*LOADER, PREPARE, "model.module.state_dict()"]) as process:
                self.assertEqual(process.wait(), 1)
        self.assertIn("'Sequential' object has no attribute 'module'", process.output)


class PrecisionTest(IdiomsTest):
    """autocast and GradScaler."""

    SCALED = [line.replace("loss.backward()", "scaler.scale(loss).backward()").replace("optimizer.step()", "scaler.step(optimizer)")
              for line in PLAIN_LOOP] + ["        scaler.update()"]

    def test_autocast_and_a_scaler_that_is_switched_off(self):
        loop = [line.replace("loss = criterion(model(x), y)", "with torch.autocast('cpu', dtype=torch.bfloat16): loss = criterion(model(x), y)") for line in self.SCALED]
        loop[5:5] = ["        scaler.unscale_(optimizer)"]
        for index, make in enumerate(("torch.cuda.amp.GradScaler()", "torch.cuda.amp.GradScaler(enabled=False)")):
            self.same(f"off-{index}", [*LOADER, f"scaler = {make}", "PREPARE", *loop], slots=(1,))
        prepare = "model, optimizer, loader, scaler = trainer.prepare(model, optimizer, loader, scaler)"
        self.same("off-prepared", [*LOADER, "scaler = torch.cuda.amp.GradScaler(enabled=False)", "PREPARE", *loop], prepare, slots=(1,))

    def test_a_scaler_that_is_on_has_the_job_s_scale(self):
        """A stand-in for torch's: that one is on where there is a GPU."""
        scaler = ["class GradScaler:", "    def is_enabled(self): return True", "    def step(self): pass", "scaler = GradScaler()"]
        prepare = "model, optimizer, loader, scaler = trainer.prepare(model, optimizer, loader, scaler)"
        wanted = self.alone([*LOADER, *PLAIN_LOOP])
        loop = [*self.SCALED[:5], "        scaler.unscale_(optimizer)", *self.SCALED[5:]]
        _, got = self.in_a_job("scaled", [*LOADER, *scaler, prepare, *loop, "        if epoch == 0: print(scaler.get_scale())"], slots=2, steps=10, precision="fp16")
        self.assert_same_numbers(got, wanted, 2e-3)  # gradients travel in 16 bits
        self.assertIn("65536.0", got)
        _, plain = self.in_a_job("unscaled", [*LOADER, PREPARE, *PLAIN_LOOP], slots=2, steps=10, precision="fp16")
        self.assert_same_numbers(plain, wanted, 2e-3)
        self.assert_near(self.losses("scaled"), self.losses("unscaled"), 1e-6)
        self.refused([*LOADER, *scaler, "PREPARE"], r'^Invalid: .*worker.precision = "fp16"', prepare)


if __name__ == "__main__":
    skips.main("torch")
