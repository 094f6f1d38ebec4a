"""capstan snapshot import of weights in OpenAI's GPT-2 layout: names, orientation, left-out tensors; and the loss of a job
that begins with them, next to this file's own GPT-2 in PyTorch. The data are files of token ids."""
import array
import random
import struct
import subprocess

import harness
import skips
from safetensors_file import read_safetensors, write_safetensors

VOCABULARY, CONTEXT, POSITIONS, LAYERS, HEADS, WIDTH, SAMPLES = 301, 9, 13, 2, 3, 12, 8
JOB = f"""\
[job]
name = "tiny"
steps = 1
global_batch = {SAMPLES}
slots = 3

[model]
kind = "gpt"
layers = {LAYERS}
heads = {HEADS}
width = {WIDTH}
context = {CONTEXT}

[data]
kind = "tokens"
path = "tokens"
vocabulary = {VOCABULARY}
validation = 0

[optimizer]
kind = "sgd"
lr = 0

[cluster]
servers = 2
workers = 2
"""


def values(count, scale=0.3):
    return array.array("f", [RANDOM.gauss(0, scale) for _ in range(count)])


RANDOM = random.Random(5)


def gpt2_tensors():
    """Returns shapes and values of a GPT-2, by the names that Hugging Face gives to tensors."""
    shapes = {"wte.weight": [VOCABULARY, WIDTH], "wpe.weight": [POSITIONS, WIDTH]}
    for layer in (f"h.{i}." for i in range(LAYERS)):
        shapes |= {layer + "ln_1.weight": [WIDTH], layer + "ln_1.bias": [WIDTH],
                   layer + "attn.c_attn.weight": [WIDTH, 3 * WIDTH], layer + "attn.c_attn.bias": [3 * WIDTH],
                   layer + "attn.c_proj.weight": [WIDTH, WIDTH], layer + "attn.c_proj.bias": [WIDTH],
                   layer + "ln_2.weight": [WIDTH], layer + "ln_2.bias": [WIDTH],
                   layer + "mlp.c_fc.weight": [WIDTH, 4 * WIDTH], layer + "mlp.c_fc.bias": [4 * WIDTH],
                   layer + "mlp.c_proj.weight": [4 * WIDTH, WIDTH], layer + "mlp.c_proj.bias": [WIDTH]}
    shapes |= {"ln_f.weight": [WIDTH], "ln_f.bias": [WIDTH]}
    count = lambda shape: shape[0] * (shape[1] if len(shape) == 2 else 1)
    return {name: (shape, values(count(shape))) for name, shape in shapes.items()}


def file_of(tensors, prefix="", masks=False, head=False):
    """Returns the tensors as write_safetensors takes them, with attention masks or the head if wanted."""
    file = {prefix + name: (shape, numbers.tobytes()) for name, (shape, numbers) in tensors.items()}
    if masks:
        for layer in range(LAYERS):
            file[f"{prefix}h.{layer}.attn.bias"] = ([1, 1, POSITIONS, POSITIONS], b"\1" * POSITIONS ** 2, "BOOL")
            file[f"{prefix}h.{layer}.attn.masked_bias"] = ([], struct.pack("<f", -1e4))
    if head:
        file["lm_head.weight"] = file[prefix + "wte.weight"]
    return file


def turned(tensors):
    """Returns what an export of the imported weights must hold: transposed matrices, and only the positions in use."""
    wanted = {}
    for name, (shape, numbers) in tensors.items():
        if name == "wpe.weight":
            shape, numbers = [CONTEXT, WIDTH], numbers[:CONTEXT * WIDTH]
        elif len(shape) == 2 and name.startswith("h."):
            rows, columns = shape
            shape = [columns, rows]
            numbers = array.array("f", [numbers[row * columns + column]
                                        for column in range(columns) for row in range(rows)])
        wanted[name] = (shape, numbers.tobytes())
    return wanted


def torch_loss(tensors, ids):
    """Returns the mean loss of a GPT-2 in PyTorch over all samples, with the weights as they are in the file."""
    import torch
    from torch.nn import functional
    w = {name: torch.tensor(numbers.tolist(), dtype=torch.float64).reshape(shape)
         for name, (shape, numbers) in tensors.items()}
    norm = lambda x, name: functional.layer_norm(x, (WIDTH,), w[name + ".weight"], w[name + ".bias"], 1e-5)
    linear = lambda x, name: x @ w[name + ".weight"] + w[name + ".bias"]
    heads = lambda x: x.reshape(SAMPLES, CONTEXT, HEADS, WIDTH // HEADS).transpose(1, 2)
    tokens = torch.tensor(ids[:SAMPLES * CONTEXT]).reshape(SAMPLES, CONTEXT)
    targets = torch.tensor(ids[1:SAMPLES * CONTEXT + 1])
    x = w["wte.weight"][tokens] + w["wpe.weight"][:CONTEXT]
    hidden = torch.ones(CONTEXT, CONTEXT, dtype=torch.bool).triu(1)
    for layer in (f"h.{i}." for i in range(LAYERS)):
        q, k, v = (heads(part) for part in linear(norm(x, layer + "ln_1"), layer + "attn.c_attn").split(WIDTH, dim=2))
        scores = (q @ k.transpose(2, 3) / (WIDTH // HEADS) ** 0.5).masked_fill(hidden, float("-inf"))
        seen = (scores.softmax(3) @ v).transpose(1, 2).reshape(SAMPLES, CONTEXT, WIDTH)
        x = x + linear(seen, layer + "attn.c_proj")
        inner = linear(norm(x, layer + "ln_2"), layer + "mlp.c_fc")
        inner = 0.5 * inner * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (inner + 0.044715 * inner ** 3)))
        x = x + linear(inner, layer + "mlp.c_proj")
    logits = norm(x, "ln_f") @ w["wte.weight"].T
    return functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets).item()


class Gpt2ImportTest(harness.JobTest):
    def setUp(self):
        super().setUp()
        self.tensors = gpt2_tensors()
        self.ids = [RANDOM.randrange(VOCABULARY) for _ in range(SAMPLES * CONTEXT + 1)]
        with open(self.path("tokens"), "wb") as file:
            file.write(struct.pack(f"<{len(self.ids)}H", *self.ids))
        self.write("job.toml", JOB)

    def run_import(self, file, *arguments, run="run", code=0):
        write_safetensors(self.path("weights.safetensors"), file)
        return self.capstan("import", self.path("job.toml"), self.path("weights.safetensors"), *arguments, run=run,
                            code=code)

    def capstan(self, command, *arguments, run="run", code=0):
        done = subprocess.run([harness.program("capstan"), "snapshot", command, "--run-dir", self.path(run), *arguments],
                              capture_output=True, text=True, timeout=harness.DEADLINE, cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr

    def export(self, run):
        self.capstan("export", "--to", self.path("back.safetensors"), run=run)
        return read_safetensors(self.path("back.safetensors"))[0]

    def resume(self, run):
        with harness.Process(harness.program("capstan"), "launch", "--resume", "--run-dir", self.path(run),
                             cwd=self.folder) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)

    def test_every_form_of_the_file_gives_the_same_weights(self):
        wanted = turned(self.tensors)
        for run, form in enumerate(({}, {"prefix": "transformer."}, {"masks": True, "head": True},
                                    {"prefix": "transformer.", "masks": True, "head": True})):
            said = self.run_import(file_of(self.tensors, **form), run=f"run-{run}")
            self.assertIn("GPT-2's layout", said)
            self.assertEqual(self.export(f"run-{run}"), wanted)
        # An export has capstan's own layout, so the import takes it as it is.
        said = self.run_import(self.export("run-0"), run="again")
        self.assertNotIn("GPT-2's layout", said)
        self.assertEqual(self.export("again"), wanted)

    def test_what_does_not_fit_is_named_and_nothing_is_made(self):
        message = self.run_import(file_of(self.tensors), "--set", "model.width=15", code=2)
        for wanted in ('"h.1.attn.c_attn.weight" is F32[36,12], the model\'s is F32[45,15]',
                       '"wte.weight" is F32[301,12], the model\'s is F32[301,15]'):
            self.assertIn(wanted, message)
        message = self.run_import(file_of(self.tensors), "--set", "model.context=14", code=2)
        self.assertIn('"wpe.weight" is F32[13,12], the model\'s is F32[14,12]', message)
        message = self.run_import(file_of(self.tensors), "--set", "model.layers=1", code=2)
        self.assertIn('"h.1.mlp.c_fc.weight" is left over', message)
        message = self.run_import(file_of(self.tensors), "--set", "model.layers=3", code=2)
        self.assertIn('"h.2.mlp.c_fc.weight" is missing', message)
        file = file_of(self.tensors, head=True)
        file["lm_head.weight"] = (file["lm_head.weight"][0], file["lm_head.weight"][1][::-1])
        self.assertIn('"lm_head.weight" and "wte.weight" differ', self.run_import(file, code=2))
        file = file_of(self.tensors)
        file["h.0.mlp.c_proj.weight"] = ([4 * WIDTH, WIDTH], b"\0" * 8 * WIDTH * WIDTH, "F16")
        self.assertIn('"h.0.mlp.c_proj.weight" is F16[12,48]', self.run_import(file, code=2))

    def test_a_job_of_imported_weights_has_the_loss_of_pytorch(self):
        skips.need(self, "torch")
        self.run_import(file_of(self.tensors))
        self.resume("run")
        self.assertEqual([row["samples"] for row in self.metrics()], [SAMPLES])
        self.assertAlmostEqual(self.metrics()[0]["loss"], torch_loss(self.tensors, self.ids), delta=1e-5)

    def test_a_token_that_the_model_does_not_have_ends_the_job_and_is_named(self):
        with open(self.path("tokens"), "r+b") as file:
            file.seek(2 * 17)
            file.write(struct.pack("<H", VOCABULARY))
        with self.launch(self.path("job.toml")) as launch:
            self.assertNotEqual(launch.wait(), 0, launch.output)
            self.assertIn(f"tokens: token 17 is {VOCABULARY}, and [data] vocabulary = {VOCABULARY}", launch.output)


if __name__ == "__main__":
    skips.main()
