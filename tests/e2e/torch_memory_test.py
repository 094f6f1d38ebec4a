#!/usr/bin/python3
"""How a program's results get into the client's memory: from the arrays of any framework, and from a GPU."""
import json
import os

import own_workers
import skips
import torch_worker_test

# Prints the answers to arrays that offer only __dlpack__, and how many references to their memory remain.
ARRAYS = """
import ctypes, gc, sys
import numpy, torch
from capstan import Error, Tensor, arrays
from capstan.tensors import Tensors
from capstan.torch.parameters import buffer_of

class Only:
    def __init__(self, tensor, device=None, capsule=None):
        self.tensor, self.device, self.capsule = tensor, device, capsule
    def __dlpack__(self, stream=None):
        return self.tensor.__dlpack__() if self.capsule is None else self.capsule()
    def __dlpack_device__(self):
        return self.device or self.tensor.__dlpack_device__()

class Offset(Only):
    def __dlpack__(self, stream=None):
        capsule = self.tensor.__dlpack__()
        described = arrays._Tensor.from_address(arrays._pointer_of(capsule, b"dltensor"))
        described.data, described.byte_offset, described.strides = described.data - 8, 8, None
        return capsule

memory = (ctypes.c_float * 6)()
tensors = Tensors([Tensor("w", (2, 3))], ctypes.addressof(memory), memory, writable=True)

def raising(error):
    raise error

def put(values, name="w", tensors=tensors):
    try:
        tensors[name] = values
        print(list(memory))
    except Error as error:
        print(f"{type(error).__name__}: {error}")

x = torch.arange(1.0, 7.0).view(2, 3)
put(Only(x))
put(Only(torch.arange(9.0)[3:].view(2, 3)))  # from within its memory
put(Offset(x * 2))
put(Only(x.t().contiguous().t()))
put(Only(x.double()))
put(Only(x.bfloat16()))
put(Only(x.view(3, 2)))
put(Only(torch.zeros(0, 3)))
put(Only(x, (2, 1)))
put((ctypes.c_float * 3 * 2)((9.0, 8.0, 7.0), (6.0, 5.0, 4.0)))  # whose format names its byte order, as that of jax
put((ctypes.c_float.__ctype_be__ * 3 * 2)())
put(x.requires_grad_())
put([1.0] * 6)
put(x, "v")
put(torch._neg_view(x))
put(torch.conj(torch.complex(x, x)).imag)
put(torch.conj(torch.complex(x, x)))
put(numpy.ma.masked_array(x.detach().numpy(), mask=numpy.eye(2, 3)))
values, view = buffer_of(torch.nn.Parameter(torch._neg_view(torch.ones(2))))
print(list(view))
put(torch.zeros(2, 3, device="meta"))
put(Only(x, 1))
put(Only(x, ("CPU", 0)))
used, versioned = torch.zeros(2, 3).__dlpack__(), torch.zeros(2, 3).__dlpack__()
arrays._rename(used, b"used_dltensor")
arrays._rename(versioned, b"dltensor_versioned")
for capsule in (lambda: used, lambda: versioned, lambda: 3, lambda: raising(TypeError("no stream")),
                lambda: raising(BufferError("no export"))):
    put(Only(torch.zeros(2, 3), capsule=capsule))
arrays._rename(versioned, b"dltensor")  # for what frees it
put(torch.zeros(2, 3), tensors=Tensors([Tensor("w", (2, 3))], ctypes.addressof(memory), memory, writable=False))
for view in (lambda x: x, torch.t):
    owner = bytearray(24)
    put(Only(view(torch.frombuffer(owner, dtype=torch.float32).view(2, 3))))
    gc.collect()
    print(sys.getrefcount(owner))
"""
ARRAYS_SAID = (
    r"\[1\.0, 2\.0, 3\.0, 4\.0, 5\.0, 6\.0\]", r"\[3\.0, 4\.0, 5\.0, 6\.0, 7\.0, 8\.0\]",
    r"\[2\.0, 4\.0, 6\.0, 8\.0, 10\.0, 12\.0\]",
    r'Invalid: .*"w".*shape \(2, 3\), not contiguous; .*shape \(2, 3\)', 'Invalid: .*"w".*"float64"',
    'Invalid: .*"w".*"bfloat16"', r'Invalid: .*"f" and shape \(3, 2\); .*shape \(2, 3\)', r"Invalid: .*shape \(0, 3\);",
    'Unsupported: .*"w" are on device 1 of type 2 .CUDA.; copy them to the CPU',
    r"\[9\.0, 8\.0, 7\.0, 6\.0, 5\.0, 4\.0\]", 'Invalid: .*"w".*format ">f"', r'Invalid: .*"w".*detach\(\)',
    r'Invalid: .*"w" are a list, .*__dlpack__\(\)', 'Invalid: "v" is no tensor',
    r'Invalid: .*"w".*is_neg\(\).*resolve_neg\(\)', r'Invalid: .*"w".*resolve_neg\(\)',
    r'Invalid: .*"w".*resolve_conj\(\)', r'Invalid: .*"w" are a masked array.*filled\(\)', r"\[-1\.0, -1\.0\]$",
    'Invalid: .*"w" are a Tensor that cannot be read .*meta.*CPU', "Invalid: .*\"w\".*'int'",
    "Invalid: .*\"w\".*'str'", 'Invalid: .*"w".*"used_dltensor".* wanted', 'Invalid: .*"w".*"dltensor_versioned"',
    r'Invalid: .*"w".*__dlpack__\(\) gave 3,', 'Invalid: .*"w".*TypeError: no stream', 'Invalid: .*"w".*no export',
    'Invalid: "w" .*read-only',
    r"\[0\.0, 0\.0, 0\.0, 0\.0, 0\.0, 0\.0\]", "2", r"Invalid: .*shape \(3, 2\)", "2")
# Copies a gradient and prints what has arrived when the event has happened, for several choices of the copy's stream and
# the event's stream, and with or without keeping the gradient until then.
STREAMS = """
import fake_gpu, torch

def arrives(how, copying, recording, is_held):
    gradient, pinned = torch.ones(1), torch.empty(1, pin_memory=True)
    with torch.cuda.stream(copying):
        pinned.copy_(gradient, non_blocking=True)
    event = torch.cuda.Event()
    event.record(recording)
    if not is_held:
        del gradient
    event.synchronize()
    print(how, pinned.tolist())

fake_gpu.install(True)
own, other = torch.cuda.current_stream(None), torch.cuda.Stream()
arrives("own stream", own, own, False)
arrives("another stream", other, other, False)
arrives("another stream, held", other, other, True)
arrives("event of another stream", own, other, True)
"""
# A worker that gives first weights and gradients in the form that `KIND` makes of a torch tensor.
GIVEN = """
import sys
import capstan, torch
KIND = {"numpy": torch.Tensor.numpy, "torch": lambda tensor: tensor}[sys.argv[3]]
with capstan.connect(sys.argv[1], sys.argv[2]) as client:
    client.declare([capstan.Tensor("w", (3, 4), initial="given"), capstan.Tensor("b", (2,))],
                   numeric_class="of the test", given={"w": KIND(torch.arange(12.0).view(3, 4))})
    for work in client.work():
        for slot in work.slots:
            gradient = slot.begin(1)
            gradient["w"] = KIND(torch.sin(torch.arange(12.0).view(3, 4) + slot.index))
            gradient["b"] = KIND(torch.ones(2) * work.step)
            slot.end(1.0, predictions=1)
"""


class ArraysTest(torch_worker_test.TorchJobTest):
    def test_arrays_of_any_framework_are_read_or_refused_by_name(self):
        with self.python("-c", ARRAYS) as process:
            self.assertEqual(process.wait(), 0, process.output)
        lines = process.output.splitlines()
        self.assertEqual(len(lines), len(ARRAYS_SAID), process.output)
        for line, said in zip(lines, ARRAYS_SAID):
            self.assertRegex(line, f"^{said}")

    def test_first_weights_and_gradients_come_by_dlpack_as_by_buffer(self):
        digests = set()
        for kind in ("numpy", "torch"):
            job = os.path.join(own_workers.EXAMPLES, "python", "job.toml")
            with self.launch(job, "--set", "job.steps=10", run=kind) as launch:
                with self.python(self.write("given.py", GIVEN), self.address(launch), "a", kind) as worker:
                    digests.add(self.digest_at_end(launch, kind, [worker]))
        self.assertEqual(len(digests), 1)


class StagingTest(torch_worker_test.TorchJobTest):
    """Copies from a GPU, which fake_gpu.py plays: it copies as late as a GPU may."""

    STEPS, PARAMETERS = 12, 6

    def trained(self, run, gpu, batch):
        with self.training_job(run, "adamw", steps=self.STEPS) as launch:
            setup = {"seed": 5, "batch": batch, "optimizer": "adamw", "coordinator": self.address(launch), "name": "a"}
            with self.python(os.path.join(torch_worker_test.HERE, "fake_gpu.py"), gpu, json.dumps(setup)) as worker:
                digest = self.digest_at_end(launch, run, [worker])
        return digest, json.loads(worker.output.splitlines()[-1])

    def test_gradients_from_a_gpu_are_read_when_they_are_there_and_change_no_bit(self):
        """Slots are computed whole, and in pieces whose gradients are added up."""
        for batch, pieces in ((32, 1), (20, 2)):
            with self.subTest(batch=batch):
                wanted, untouched = self.trained(f"cpu-{batch}", "off", batch)
                got, seen = self.trained(f"gpu-{batch}", "on", batch)
                self.assertEqual(got, wanted)
                self.assertEqual({name: untouched.get(name, 0) for name in ("pinned", "copies")},
                                 {"pinned": 0, "copies": 0})
                self.assertEqual(seen["pinned"], self.PARAMETERS)
                self.assertEqual(seen["copies"], self.PARAMETERS * self.STEPS * 2 * pieces)  # of two slots
                self.assertEqual(seen.get("held", 0), 0, "a gradient is held beyond the start of its copy")
                self.assertGreater(seen["queries"], seen["copies"] / 2, "nothing leaves before the end")
                self.assertGreater(seen["waited"], 0)

    def test_the_gpu_that_is_played_shows_a_gradient_let_go_too_early_and_an_event_of_another_stream(self):
        with self.python("-c", STREAMS, PYTHONPATH=torch_worker_test.HERE) as process:
            self.assertEqual(process.wait(), 0, process.output)
        self.assertEqual(process.output.splitlines(), ["own stream [1.0]", "another stream [nan]",
                                                       "another stream, held [1.0]", "event of another stream [nan]"])

    def test_a_failure_of_the_gpu_is_raised_by_backward_and_the_process_ends(self):
        lines = ["import fake_gpu", "fake_gpu.install(True)", "torch.cuda.Event = fake_gpu.NoEvent",
                 "model, optimizer, loader = prepare(trainer)",
                 "try: step(trainer, model, *next(iter(loader)))", "except AssertionError as error: print(error)",
                 "optimizer.step()"]
        with self.training_job("fails", "adamw", steps=1000) as launch:
            output = self.said_by(self.address(launch), lines)
        self.assertRegex(output, "(?s)an event of CUDA.*\nInvalid: backward.. was left by an exception")

    def test_a_second_gradient_is_noticed_while_the_first_is_on_its_way(self):
        lines, said = torch_worker_test.WRONG_STEPS["a parameter of two checkpointed segments"]
        lines = ["import fake_gpu", "fake_gpu.install(True)", *lines]
        with self.training_job("twice", "adamw", steps=1000) as launch:
            output = self.said_by(self.address(launch), lines)
        self.assertRegex(output.splitlines()[-1], said)


if __name__ == "__main__":
    skips.main("torch")
