#!/usr/bin/python3
"""The values of a PyTorch script's model: batch norm's statistics and other buffers belong to the job, changes by the script
outside of training are kept or refused by name, and every process ends with the final weights."""
import contextlib
import json
import os
import struct

import own_workers
import safetensors_file
import skips
import torch_worker_test

STEPS = 40
# A network with batch norms. A norm cancels the bias of the layer before it, whose gradient would be noise, so those
# layers have no bias.
NORMS = ["N = torch.nn", "torch.manual_seed(5)", "linear = lambda *sizes: N.Linear(*sizes, bias=False)",
         "model = N.Sequential(linear(12, 24), N.BatchNorm1d(24), N.Tanh(), linear(24, 24), "
         "N.BatchNorm1d(24, momentum=0.3), N.Tanh(), linear(24, 8), N.BatchNorm1d(8, momentum=None), N.Linear(8, 1))",
         "optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)"]
LOADER = ["loader = DataLoader(training.data(), batch_size=BATCH, shuffle=True)",
          "model, optimizer, loader = trainer.prepare(model, optimizer, loader, **OPTIONS)"]
EPOCHS = ["for _ in trainer.epochs():", "    for x, y in loader:", "        optimizer.zero_grad()",
          "        trainer.backward(torch.nn.functional.mse_loss(model(x), y))", "        optimizer.step()"]
SAY_STATE = ["import json", "print(json.dumps({name: value.tolist() for name, value in model.state_dict().items()}))"]
# Trains the same network by PyTorch without capstan, with the batches that the job would choose.
PLAIN = ["import json, sys", f"sys.path.insert(0, {torch_worker_test.HERE!r})", "import torch, torch_training as training",
         "torch.set_num_threads(1)", "from capstan.torch.batches import Plan", "from capstan.torch.orders import shuffled",
         *NORMS,
         "plan = Plan(shuffled(320, 1), samples=320, global_batch=64, slots=1, batch=64, drop_last=False)",
         "losses, data = [], training.data()", f"for step in range({STEPS}):", "    piece, = plan.pieces(step, 0)",
         "    x, y = data[list(piece.samples)]", "    loss = torch.nn.functional.mse_loss(model(x), y)",
         "    optimizer.zero_grad()", "    loss.backward()", "    optimizer.step()", "    losses.append(loss.item())",
         "print(json.dumps(losses))", *SAY_STATE]


class TorchWeightsTest(torch_worker_test.TorchJobTest):
    @contextlib.contextmanager
    def worker(self, launch, lines, name="w", **settings):
        """Runs a process with these lines within the block. `settings`: values of variables that the lines use."""
        settings = {"BATCH": 64, "OPTIONS": {}, **settings}
        lines = [*(f"{key} = {value!r}" for key, value in settings.items()), *lines]
        script = torch_worker_test.SCRIPT.format(folder=torch_worker_test.HERE, coordinator=self.address(launch), name=name,
                                                 lines="\n".join("        " + line for line in lines))
        with self.python(self.write(f"{name}.py", script)) as process:
            yield process

    def trained(self, run, lines, workers=1, slots=1, optimizer="adamw", steps=STEPS, **settings):
        """Trains a job with these lines. Returns the digest of its weights and the output of its processes."""
        with self.training_job(run, optimizer, workers=workers, slots=slots, steps=steps) as launch, \
                contextlib.ExitStack() as stack:
            processes = [stack.enter_context(self.worker(launch, lines, f"w{index}", **settings)) for index in range(workers)]
            digest = self.digest_at_end(launch, run, processes)
        return digest, [process.output for process in processes]

    def final(self, run):
        """Returns the values of each tensor in final.safetensors, by name."""
        tensors, _ = safetensors_file.read_safetensors(self.path(run, "final.safetensors"))
        return {name: struct.unpack(f"<{len(data) // 4}f", data) for name, (_, data) in tensors.items()}

    def assert_is_final(self, run, output):
        """Checks that a process ended with exactly the job's weights. Returns the values that it printed."""
        state, final = json.loads(output.splitlines()[-1]), self.final(run)
        for name, values in final.items():
            self.assertEqual(tuple(flat(state[name])), values, name)
        return state


def flat(value):
    return [number for part in value for number in flat(part)] if isinstance(value, list) else [value]


class StatisticsTest(TorchWeightsTest):
    def test_one_process_has_the_losses_and_the_statistics_of_pytorch_alone(self):
        """The network's norms have every kind of momentum: the default, another one, and None."""
        _, (output,) = self.trained("norms", [*NORMS, *LOADER, *EPOCHS, *SAY_STATE])
        with self.python("-c", "\n".join(PLAIN)) as process:
            self.assertEqual(process.wait(), 0, process.output)
        losses, wanted = map(json.loads, process.output.splitlines()[-2:])
        self.assert_near(self.losses("norms"), losses, 1e-5)
        got = self.assert_is_final("norms", output)
        self.assertEqual(got.keys(), wanted.keys())
        for name, values in wanted.items():
            if "running" in name or "num_batches" in name:
                self.assert_near(flat(got[name]), flat(values), 1e-5, learning=False)
        self.assertEqual({name: value for name, value in got.items() if "num_batches" in name},
                         {f"{index}.num_batches_tracked": STEPS for index in (1, 4, 7)})

    def test_statistics_are_the_same_bits_for_any_number_of_processes(self):
        """The batches are smaller than a slot, so slots come in pieces."""
        digests, states = set(), set()
        for workers in (1, 2, 3):
            lines = [*NORMS, *LOADER, *EPOCHS, *SAY_STATE]
            digest, outputs = self.trained(f"by-{workers}", lines, workers, slots=3, BATCH=12)
            digests.add(digest)
            states |= {output.splitlines()[-1] for output in outputs}
            self.assert_is_final(f"by-{workers}", outputs[0])
        self.assertEqual((len(digests), len(states)), (1, 1))

    def test_each_slot_begins_with_the_job_s_statistics(self):
        """The buffers before both slots of a step are equal."""
        lines = [*NORMS, "model, optimizer = trainer.prepare(model, optimizer)", "data, seen = training.data(), {}",
                 "for slot in trainer.slots():",
                 "    values = torch.cat([b.flatten().double() for b in model.buffers()]).tolist()",
                 "    seen.setdefault(slot.key[1], []).append(values)",
                 "    x, y = data[slot.index * 32:(slot.index + 1) * 32]", "    step(trainer, model, x, y, 32)",
                 "print([len(set(map(tuple, s))) for s in seen.values()], len({tuple(s[0]) for s in seen.values()}))"]
        _, (output,) = self.trained("slots", lines, slots=2, steps=5)
        self.assertEqual(output.splitlines()[-1], "[1, 1, 1, 1, 1] 5")

    def test_a_norm_that_does_not_train_keeps_its_statistics(self):
        lines = [*NORMS, "model[1].running_mean.fill_(0.3)", "model[1].running_var.fill_(1.7)",
                 "model[1].num_batches_tracked.fill_(9)", *LOADER, "model[1].eval()", *EPOCHS, *SAY_STATE]
        _, (output,) = self.trained("still", lines, slots=3, BATCH=12)
        state = self.assert_is_final("still", output)
        self.assertEqual(set(state["1.running_mean"]), {struct.unpack("f", struct.pack("f", 0.3))[0]})
        self.assertEqual(set(state["1.running_var"]), {struct.unpack("f", struct.pack("f", 1.7))[0]})
        self.assertEqual((state["1.num_batches_tracked"], state["4.num_batches_tracked"]), (9, STEPS))

    def test_jobs_without_common_steps_keep_them_as_well(self):
        lines = [*NORMS, *LOADER, *EPOCHS, *SAY_STATE]
        job = os.path.join(own_workers.EXAMPLES, "pytorch", "digits.toml")
        settings = {"job.mode": '"async"', "job.steps": STEPS, "job.global_batch": 64, "job.slots": 2, "cluster.workers": 1,
                    "optimizer.kind": '"adamw"', "limits.lease": 2}
        words = (word for name, value in settings.items() for word in ("--set", f"{name}={value}"))
        with self.launch(job, *words, run="async") as launch, self.worker(launch, lines, BATCH=32) as process:
            self.digest_at_end(launch, "async", [process])
        state = self.assert_is_final("async", process.output)
        self.assertGreater(sum(abs(value - 1) for value in state["1.running_var"]), 1)

    def test_a_killed_process_changes_no_bit(self):
        lines = [*NORMS, *LOADER, *EPOCHS]
        one, _ = self.trained("one", lines, slots=2, steps=60, BATCH=32)
        with self.gate(40) as held, self.training_job("killed", "adamw", workers=2, slots=2, steps=60) as launch, \
                self.worker(launch, lines, "a", BATCH=32) as a, self.worker(launch, lines, "b", BATCH=32) as b:
            self.kill_in_mid_run(b.pid, "killed")
            held.open()
            self.assertEqual(self.digest_at_end(launch, "killed", [a]), one)

    def test_the_vectors_of_spectral_norm_are_the_job_s(self):
        lines = ["torch.manual_seed(5)", "from torch.nn.utils import spectral_norm, parametrizations",
                 "model = torch.nn.Sequential(spectral_norm(torch.nn.Linear(12, 24)), torch.nn.Tanh(),"
                 " parametrizations.spectral_norm(torch.nn.Linear(24, 1)))",
                 "optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)", *LOADER, *EPOCHS, *SAY_STATE]
        digests = set()
        for workers in (1, 2):
            digest, outputs = self.trained(f"spectral-{workers}", lines, workers, slots=2, BATCH=32)
            digests.add(digest)
            for output in outputs:
                self.assert_is_final(f"spectral-{workers}", output)
        self.assertEqual(len(digests), 1)
        self.assertLess({"0.weight_u", "0.weight_v", "2.parametrizations.weight.0._u"}, self.final("spectral-1").keys())


# A network with a buffer that its forward pass changes.
SEES = ["class Sees(torch.nn.Linear):", "    def forward(self, x):",
        "        if self.training: self.seen = SEEN(self.seen, x.detach())", "        return super().forward(x)",
        "torch.manual_seed(5)", "model = torch.nn.Sequential(Sees(12, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))",
        "model[0].register_buffer('seen', BEGIN)",
        "optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)"]
MEANS = ["SEEN, BEGIN = (lambda seen, x: 0.9 * seen + 0.1 * x.mean(0)), torch.zeros(12)", *SEES]
NETWORK = ["model = training.network(5)", "optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)"]
LOOP = [*LOADER, "for _ in trainer.epochs():", "    for x, y in loader:",
        "        trainer.backward(torch.nn.functional.mse_loss(model(x), y))", "        optimizer.step()"]


class BuffersTest(TorchWeightsTest):
    def test_a_buffer_of_the_job_is_the_mean_over_the_slots(self):
        digests = set()
        for workers in (1, 2):
            digest, outputs = self.trained(f"mean-{workers}", [*MEANS, *LOOP, *SAY_STATE], workers, slots=2, BATCH=32,
                                           OPTIONS={"buffers": {"*.seen": "mean"}})
            digests.add(digest)
            for output in outputs:
                self.assert_is_final(f"mean-{workers}", output)
        self.assertEqual(len(digests), 1)
        alone = ["import json", f"import sys; sys.path.insert(0, {torch_worker_test.HERE!r})",
                 "import torch, torch_training as training", "from capstan.torch.batches import Plan",
                 "from capstan.torch.orders import shuffled",
                 "plan = Plan(shuffled(320, 1), samples=320, global_batch=64, slots=1, batch=64, drop_last=False)",
                 "seen = torch.zeros(12)", f"for step in range({STEPS}):",
                 "    seen = 0.9 * seen + 0.1 * training.data()[list(next(plan.pieces(step, 0)).samples)][0].mean(0)",
                 "print(json.dumps(seen.tolist()))"]
        with self.python("-c", "\n".join(alone)) as process:
            self.assertEqual(process.wait(), 0, process.output)
        self.assert_near(self.final("mean-1")["0.seen"], json.loads(process.output), 1e-5, learning=False)

    def test_a_buffer_may_be_each_process_s_own(self):
        lines = ["SEEN, BEGIN = (lambda seen, x: seen + len(x)), torch.zeros((), dtype=torch.long)", *SEES, *LOOP,
                 "print(int(model[0].seen))"]
        _, (output,) = self.trained("local", lines, OPTIONS={"buffers": {"0.seen": "local"}})
        self.assertEqual(output.splitlines()[-1], str(64 * STEPS))
        self.assertNotIn("0.seen", self.final("local"))


def after_step(*lines):
    return [*LOOP, *("        " + line for line in lines)]


# What a script does to its model, and the error that it gets.
REFUSED = {
    "a clamp through .data": (NETWORK + after_step("for p in model.parameters(): p.data.clamp_(-0.01, 0.01)"),
                              r'^Unsupported: parameter "0.weight" was changed by the script in step 1, .*parametrize'),
    "a small tensor that is set to zero": (NETWORK + after_step("with torch.no_grad(): model[2].bias[3].zero_()"),
                                           r'^Unsupported: parameter "2.bias" was changed by the script in step 1'),
    "a state that is loaded midway": (
        [*NETWORK, "first = {k: v.clone() for k, v in model.state_dict().items()}",
         *after_step("if trainer.global_step == 3: model.load_state_dict(first)")],
        r'^Unsupported: parameter "0.weight" was changed by the script in step 3'),
    "weights that are put in their place": (
        [*NETWORK, "other = [p.detach() * 0.5 for p in model.parameters()]",
         *after_step("for p, o in zip(model.parameters(), other): p.data = o")],
        r'^Unsupported: parameter "0.weight" was changed by the script in step 1'),
    "a layer that is unfrozen": (
        ["model = training.network(5)", "model[0].requires_grad_(False)",
         "optimizer = torch.optim.AdamW(model[2:].parameters(), lr=0.01)",
         *after_step("if trainer.global_step == 2: model[0].requires_grad_(True)")],
        r'^Invalid: parameter "0.weight" was unfrozen after prepare\(\), by step 2, .*unfreeze it before prepare\(\)'),
    "a layer that is frozen": (
        NETWORK + after_step("if trainer.global_step == 2: model[2].requires_grad_(False)"),
        r'^Invalid: parameter "2.weight" was frozen after prepare\(\), by step 2, .*freeze it before prepare\(\)'),
    "a layer that is replaced": (
        [*NETWORK, *LOADER, "model[2] = torch.nn.Linear(24, 24)",
         "for x, y in loader: trainer.backward(torch.nn.functional.mse_loss(model(x), y))"],
        r'^Invalid: parameter "2.weight" has no gradient .*replaced after prepare\(\)'),
    "a layer that is added": (
        [*NETWORK, *LOADER, "model.add_module('more', torch.nn.Linear(1, 1))",
         "for x, y in loader: step(trainer, model, x, y)"],
        r'^Invalid: parameter "more.weight" was replaced or added after prepare\(\), by step 0'),
    "a branch that is not taken": (
        [*NETWORK, *LOADER,
         "for x, y in loader: trainer.backward(torch.nn.functional.mse_loss(model[4](model[1](model[0](x))), y))"],
        r'^Invalid: parameter "2.weight" has no gradient in slot 0 of step 0: .*prepare\(..., unused="zero"\)'),
    "a buffer that changes": (
        MEANS + LOOP, r'^Unsupported: buffer "0.seen" changed in step 0, .*prepare\(..., buffers={"0.seen": "mean"}\)'),
    "a buffer of whole numbers that changes": (
        ["SEEN, BEGIN = (lambda seen, x: seen + 1), torch.zeros((), dtype=torch.long)", *SEES, *LOOP],
        r'^Unsupported: buffer "0.seen" of torch.int64 changed in step 0, .*buffers={"0.seen": "local"}'),
    "a buffer that changes late": (
        ["SEEN, BEGIN = (lambda seen, x: seen.add_(1.0 if trainer.global_step == 3 else 0.0)), torch.zeros(2)", *SEES, *LOOP],
        '^Unsupported: buffer "0.seen" changed in step 3'),
    "a frozen parameter that changes": (
        ["model = training.network(5)", "model[0].requires_grad_(False)",
         "optimizer = torch.optim.AdamW(model[2:].parameters(), lr=0.01)", *after_step("model[0].weight.mul_(0.5)")],
        r'^Unsupported: parameter "0.weight", which is frozen, changed in step 1, .*buffers={"0.weight": "mean"}'),
    "a pattern of no buffer": ([*NETWORK, "trainer.prepare(model, optimizer, buffers={'1.seen': 'mean'})"],
                               r"^Invalid: .*1.seen.*the model has no such buffer"),
    "a word for a buffer that is none": ([*NETWORK, "trainer.prepare(model, optimizer, buffers={'x': 'first'})"],
                                         r"""^Invalid: .*'first'.*wanted "mean" or "local\""""),
    "a word for what is unused": ([*NETWORK, "trainer.prepare(model, optimizer, unused='skip')"],
                                  r"""^Invalid: .*unused='skip'.*wanted "zero\""""),
    "an embedding that changes its weights": (
        ["model = torch.nn.Sequential(torch.nn.Embedding(4, 3, max_norm=1.0))",
         "trainer.prepare(model, torch.optim.AdamW(model.parameters()))"],
        r'^Unsupported: "0" .Embedding. changes its weights in each forward pass .max_norm=1.0.'),
    "a norm that has averaged before": (
        [*NORMS, "model[7].num_batches_tracked.fill_(3)", *LOADER],
        r'^Unsupported: "7.num_batches_tracked" is 3, .*reset_running_stats\(\)'),
    "a buffer that the job cannot keep": (
        [*NORMS, "model[1].double()", "for p in model[1].parameters(): p.data = p.data.float()", *LOADER],
        '^Unsupported: buffer "1.running_mean" is of torch.float64; the job keeps float32'),
}


class RefusedTest(TorchWeightsTest):
    def test_what_a_script_does_to_its_model_is_told_at_that_step(self):
        for name, (lines, said) in REFUSED.items():
            with self.subTest(name):
                with self.training_job(f"run-{name}", "adamw", slots=1, steps=1000) as launch, \
                        self.worker(launch, lines) as process:
                    self.assertEqual(process.wait(), 0, process.output)
                self.assertRegex(process.output.splitlines()[-1], said)


class AcceptedTest(TorchWeightsTest):
    def test_other_weights_in_an_evaluation_change_nothing(self):
        """The weights are replaced by copying values, and by giving the parameters other memory."""
        digest, _ = self.trained("alone", [*NETWORK, *LOOP], slots=2, BATCH=32)
        swaps = {"copied": ["for p, o in zip(model.parameters(), other): o.copy_(p), p.copy_(o * 0.5)",
                            "for p, o in zip(model.parameters(), other): p.copy_(o)"],
                 "moved": ["for p in model.parameters(): p.data, p.other = p.data * 0.5, p.data",
                           "for p in model.parameters(): p.data = p.other"]}
        for name, (begin, end) in swaps.items():
            evaluate = after_step("with torch.no_grad():", "    " + begin, "    model(x)", "    " + end)
            lines = [*NETWORK, "other = [torch.empty_like(p) for p in model.parameters()]", *evaluate]
            with self.subTest(name):
                self.assertEqual(self.trained(name, lines, slots=2, BATCH=32)[0], digest)

    def test_a_gradient_that_a_slot_has_not_is_zero_if_the_script_says_so(self):
        lines = [*NETWORK, "optimizer = torch.optim.SGD(model.parameters(), lr=0.05)", *LOADER,
                 "before = model[2].weight.tolist()", "for _ in trainer.epochs():", "    for x, y in loader:",
                 "        part = model if trainer.global_step < 3 else torch.nn.Sequential(model[0], model[1], model[4])",
                 "        trainer.backward(torch.nn.functional.mse_loss(part(x), y))", "        optimizer.step()",
                 "        if trainer.global_step == 3: before = model[2].weight.tolist()",
                 "print(before == model[2].weight.tolist())"]
        _, (output,) = self.trained("unused", lines, optimizer="sgd", OPTIONS={"unused": "zero"})
        self.assertEqual(output.splitlines()[-1], "True")

    def test_frozen_parameters_of_the_optimizer_are_left_out_and_named(self):
        lines = ["model = training.network(5)", "model[0].requires_grad_(False)", "before = model[0].weight.tolist()",
                 "optimizer = torch.optim.SGD(model.parameters(), lr=0.05)", *LOOP, "print(before == model[0].weight.tolist())"]
        _, (output,) = self.trained("frozen", lines, optimizer="sgd")
        self.assertEqual(output.splitlines()[-1], "True")
        self.assertIn("capstan: frozen, and left out as torch does, though the optimizer has them: 0.weight, 0.bias\n", output)
        self.assertNotIn("0.weight", self.final("frozen"))

    def test_channels_last_stays_and_gives_the_same_losses(self):
        network = ["torch.manual_seed(5)",
                   "model = torch.nn.Sequential(torch.nn.Unflatten(1, (3, 2, 2)), torch.nn.Conv2d(3, 8, 2, padding=1), "
                   "torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(72, 1))"]
        losses = {}
        for form in ("contiguous_format", "channels_last"):
            lines = [*network, f"model = model.to(memory_format=torch.{form})",
                     "optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)", *LOOP,
                     f"print(model[1].weight.is_contiguous(memory_format=torch.{form}), "
                     "optimizer.state[model[1].weight]['exp_avg'].stride() == model[1].weight.stride())", *SAY_STATE]
            _, (output,) = self.trained(form, lines, slots=2, BATCH=32)
            self.assertEqual(output.splitlines()[-2], "True True")
            self.assert_is_final(form, output)
            losses[form] = self.losses(form)
        self.assert_near(losses["channels_last"], losses["contiguous_format"], 1e-4)

    def test_a_scaler_that_is_off_or_before_the_job_s_clip_does_nothing(self):
        lines = [*NETWORK, *LOADER, "scaler = capstan.torch.GradScaler(trainer, enabled=ON)", "for _ in trainer.epochs():",
                 "    for x, y in loader:", "        loss = torch.nn.functional.mse_loss(model(x), y)",
                 "        trainer.backward(scaler.scale(loss))", "        scaler.unscale_(optimizer)",
                 "        scaler.step(optimizer)", "        scaler.update()"]
        for on, precision, clip in ((False, "fp32", 0.0), (True, "fp16", 0.5)):
            with self.subTest(on), self.training_job(f"on-{on}", "adamw", slots=1, steps=5, precision=precision,
                                                     clip_norm=clip) as launch, \
                    self.worker(launch, lines, ON=on) as process:
                self.digest_at_end(launch, f"on-{on}", [process])
            self.assertEqual(len(self.losses(f"on-{on}")), 5)


class EndTest(TorchWeightsTest):
    def test_every_process_ends_with_the_final_weights(self):
        """In each job one process has no slot."""
        for workers, slots in ((2, 1), (3, 2)):
            with self.subTest(workers=workers):
                run = f"of-{workers}"
                _, outputs = self.trained(run, [*NORMS, *LOADER, *EPOCHS, *SAY_STATE], workers, slots, BATCH=32)
                states = {json.dumps(self.assert_is_final(run, output)) for output in outputs}
                self.assertEqual(len(states), 1)

    def test_a_process_that_cannot_have_them_ends_with_an_error(self):
        lines = ["from capstan.torch import last_version", "def gone(*_, **__): raise capstan.Unreachable('nobody answers')",
                 "last_version.Reader.pull = gone", *NETWORK, *LOOP]
        _, (output,) = self.trained("gone", lines, steps=3)
        self.assertRegex(output.splitlines()[-1], r"^Unreachable: the job is done, and its last weights could not be read .*"
                                                  "final.safetensors.*nobody answers")


if __name__ == "__main__":
    skips.main("torch")
