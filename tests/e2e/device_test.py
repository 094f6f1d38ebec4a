#!/usr/bin/python3
"""Jobs whose workers compute on an emulated device: the same bits for any number of workers and after kills, the losses of
the CPU, and the messages without a device or with the wrong one.

With CAPSTAN_HAS_CUDA_PLUGIN=1 it also tests the plug-in for real devices, on machines with and without one.
"""
import os
import re
import shutil
import subprocess

import harness
import recovery
import skips
from precision_test import RESNET
from same_bits_test import GPT_JOB

MLP = f"""
[cluster]
coordinator = "{harness.HOST}:0"
listen = "{harness.HOST}:0"

[metrics]
listen = "{harness.HOST}:0"

[job]
name = "device"
mode = "sync"
steps = 12
seed = 7
global_batch = 33
slots = 3
eval_every = 4

[model]
kind = "mlp"
hidden = [65, 31]
dropout = 0.2

[data]
kind = "synthetic"
samples = 100
features = 33
classes = 7

[optimizer]
kind = "adamw"
lr = 0.002
clip_norm = 1.0

[worker]
device = "emulated"
accumulate = 2
"""
EMULATED = "worker.device=emulated"
RECOMPUTED_BY_THREE = ("3 workers, 2 servers, recomputed",
                       ["cluster.workers=3", "cluster.servers=2", "worker.recompute=true"])
STUB = 'const struct { unsigned abi; const char* id; void* create; } capstan_device_plugin = {%d, "%s", 0};\n'


def name_at_run_time(library):
    """Returns the name under which a program that was linked with this library loads it."""
    found = subprocess.run(["gcc", f"-print-file-name={library}"], capture_output=True, text=True, check=True).stdout.strip()
    dynamic = subprocess.run(["readelf", "-dW", found], capture_output=True, text=True, check=True).stdout
    return re.search(r"SONAME.*\[(.*)\]", dynamic).group(1)


def needed_and_exported(library):
    dynamic = subprocess.run(["readelf", "-dW", library], capture_output=True, text=True, check=True).stdout
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return re.findall(r"NEEDED.*\[(.*)\]", dynamic), [line.split()[-1] for line in symbols.splitlines()]


class DeviceTest(recovery.SameBitsTest):
    def losses(self, run):
        return [step["loss"] for step in recovery.records(self.path(run))]

    def assert_losses_of_the_cpu(self, text, tolerance, *settings):
        self.run_job(text, "cpu", "worker.device=cpu", *settings)
        for ours, theirs in zip(self.losses("run0"), self.losses("cpu"), strict=True):
            self.assertAlmostEqual(ours, theirs, delta=tolerance * max(1, theirs))
        shutil.rmtree(self.path("cpu"))

    def test_an_mlp_has_the_same_bits_for_any_number_of_workers_and_shards(self):
        self.assert_one_digest(MLP, [], ("1 worker", ["cluster.workers=1"]),
                               ("3 workers, 2 servers", ["cluster.workers=3", "cluster.servers=2"]))
        self.assert_losses_of_the_cpu(MLP, 1e-5)

    def test_a_gpt_has_the_same_bits_for_any_number_of_workers(self):
        for precision, tolerance in (("fp32", 1e-4), ("bf16", 2e-2)):
            settings = [EMULATED, f"worker.precision={precision}", "job.steps=6"]
            self.assert_one_digest(GPT_JOB, settings, ("1 worker", ["cluster.workers=1"]), RECOMPUTED_BY_THREE)
            self.assert_losses_of_the_cpu(GPT_JOB, tolerance, *settings[1:])

    def test_running_statistics_come_back_from_a_device(self):
        self.assert_one_digest(RESNET, [EMULATED, "worker.precision=bf16", "job.steps=3"],
                               ("1 worker", ["cluster.workers=1"]), RECOMPUTED_BY_THREE)

    def test_killed_processes_move_no_bit(self):
        self.assert_kills_move_no_bit(MLP, ["job.steps=150"], ("worker-0", "server-1", "worker-1"))

    def refusal(self, *settings, binaries=None, **variables):
        """Launches a job that must fail because of its device. Returns its message."""
        arguments = [word for setting in settings for word in ("--set", setting)]
        shutil.rmtree(self.path("refused"), ignore_errors=True)
        launched = subprocess.run(
            [os.path.join(binaries or harness.BIN, "capstan"), "launch", self.write("job.toml", MLP), "--run-dir",
             self.path("refused"), *arguments], capture_output=True, text=True, timeout=harness.DEADLINE,
            env={**os.environ, **variables})
        self.assertEqual(launched.returncode, 1, launched.stderr)
        said = [line for line in launched.stderr.splitlines() if line.startswith("capstan: worker-")]
        self.assertTrue(said, launched.stderr)
        self.assert_nothing_runs("refused")
        return said[0]

    def test_a_device_that_does_not_fit_is_refused_with_what_to_do(self):
        for settings, variables, words in (
                ([], {"CAPSTAN_EMULATED_DEVICES": "0"}, ["no CUDA device", "cudaErrorNoDevice", 'worker.device = "cpu"']),
                ([], {"CAPSTAN_EMULATED_DRIVER": "12080"}, ["a driver for CUDA 12.8", "built with 13.0"]),
                ([], {"CAPSTAN_EMULATED_DRIVER": "0"}, ["no NVIDIA driver"]),
                ([], {"CAPSTAN_EMULATED_CAPABILITY": "7"}, ["sm_70, is too old: sm_80 or later is needed"]),
                (["job.global_batch=30000", "data.samples=40000"], {"CAPSTAN_EMULATED_MEMORY": str(66 << 20)},
                 ["activations of a micro-batch of 5000 samples", "and the device has 66 MiB free; lower [job] global_batch",
                  "raise [job] slots or [worker] accumulate", "a device with more memory"])):
            with self.subTest(words[0]):
                said = self.refusal(*settings, **variables)
                for word in words:
                    self.assertIn(word, said)

    def copy_of_the_installation(self):
        """Copies the programs into a folder whose plug-ins a test may change. Returns the folder of the programs."""
        os.makedirs(self.path("copy", "bin"))
        for name in ("capstan", "capstan-server", "capstan-worker"):
            shutil.copy(harness.program(name), self.path("copy", "bin"))
        os.makedirs(self.path("copy", "lib", "capstan"))
        return self.path("copy", "bin")

    def test_a_plug_in_of_another_build_is_refused(self):
        binaries = self.copy_of_the_installation()
        self.assertIn("libcapstan_emulated.so: cannot open shared object file", self.refusal(binaries=binaries))
        self.assertIn("it is built where nvcc is", self.refusal("worker.device=cuda", binaries=binaries))
        plugin = self.path("copy", "lib", "capstan", "libcapstan_emulated.so")
        for abi, build, words in ((1, "0123456789abcdef", "is of build 0123456789abcdef, this worker of build "),
                                  (2, "", "is of another age")):
            source = self.write("plugin.c", STUB % (abi, build))
            subprocess.run(["gcc", "-shared", "-fPIC", "-o", plugin, source], check=True)
            said = self.refusal(binaries=binaries)
            self.assertIn(words, said)
            self.assertIn("build capstan as a whole", said)

    def test_a_plug_in_exports_one_symbol_and_nobody_needs_cuda_to_start(self):
        plugins = [os.path.join(harness.BIN, "..", "lib", "capstan", "libcapstan_emulated.so")]
        if "CAPSTAN_HAS_CUDA_PLUGIN" in os.environ:
            plugins.append(plugins[0].replace("emulated", "cuda"))
        sanitizers = {"libasan.so.8", "libubsan.so.1", "libtsan.so.2"}
        for plugin in plugins:
            needed, exported = needed_and_exported(plugin)
            self.assertEqual([name for name in exported if "san" not in name], ["capstan_device_plugin"], plugin)
            own = {"libstdc++.so.6", "libm.so.6", "libgcc_s.so.1", "libc.so.6", "ld-linux-x86-64.so.2"} | sanitizers
            fibers = {name_at_run_time("libboost_context.so")} if "emulated" in plugin else set()
            self.assertLessEqual(set(needed) - own, fibers)
        for name in ("capstan", "capstan-server", "capstan-worker"):
            needed, _ = needed_and_exported(harness.program(name))
            self.assertFalse([library for library in needed if re.search("cuda|cublas|cudnn|nccl|capstan_", library)])

    def test_a_real_device_is_used_or_found_missing(self):
        if "CAPSTAN_HAS_CUDA_PLUGIN" not in os.environ:
            skips.skip(self, "built without nvcc: there is no plug-in for CUDA")
        if os.path.exists("/dev/nvidia0"):
            self.assert_one_digest(MLP, ["worker.device=cuda"], ("1 worker", ["cluster.workers=1"]),
                                   ("3 workers", ["cluster.workers=3"]))
        else:
            self.assertIn("no CUDA device that can be used", self.refusal("worker.device=cuda"))
            self.assertIn("no CUDA device that can be used", self.refusal("worker.device=cuda:1"))


if __name__ == "__main__":
    skips.main()
