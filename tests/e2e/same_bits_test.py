#!/usr/bin/python3
"""The final weights of a synchronous job are the same bytes for any number of workers, shards and threads.

Runs one job many times through `capstan launch` and compares the sha256 of final.safetensors. The job has 5 slots, a
global batch that they do not divide, two micro-batches a slot, dropout, tensors of several blocks, an epoch with a ragged
end, and a clip norm that is exceeded in some steps and not in others (both are checked). One case has more shards than
blocks; in another slots move because workers are silent; both are checked too. Then the same is done with a small GPT with
dropout, for the mean and the median of the slots' gradients, and with small jobs of the optimizers that take trust ratios,
with clipping.

usage: same_bits_test.py --bin FOLDER
"""
import contextlib
import hashlib
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile

import harness
import recovery

JOB = """
[job]
name = "same-bits"
mode = "sync"
steps = 14
seed = 7
global_batch = 33
slots = 5
eval_every = 4

[model]
kind = "mlp"
hidden = [700, 600]
dropout = 0.2

[data]
kind = "synthetic"
samples = 200
features = 500
classes = 10

[optimizer]
kind = "adamw"
lr = 0.002
clip_norm = CLIP

[schedule]
kind = "cosine"
warmup_steps = 3

[cluster]
servers = 1
workers = 1

[worker]
accumulate = 2

[limits]
lease = 1.5
stall = 60
"""

STEPS = 14  # of JOB
MOVED = "its slots move"
BLOCK_ELEMENTS = 262144  # of a tensor, at most, are in one block

GPT_JOB = """
[job]
name = "same-bits-gpt"
mode = "sync"
steps = 6
seed = 7
global_batch = 12
slots = 5
eval_every = 3

[model]
kind = "gpt"
layers = 2
heads = 2
width = 32
context = 24
dropout = 0.2

[data]
kind = "synthetic"
samples = 64

[optimizer]
kind = "adamw"
lr = 0.002
clip_norm = 1.0

[worker]
accumulate = 2
"""


# Most weights are in a tensor of several blocks, which lie on all shards, so its trust ratio needs the norms of all
# shards.
TRUST_JOB = """
[job]
name = "same-bits-trust"
mode = "sync"
steps = 8
seed = 7
global_batch = 12
slots = 3

[model]
kind = "mlp"
hidden = [2200]

[data]
kind = "synthetic"
samples = 64
features = 300
classes = 10

[optimizer]
OPTIMIZER
weight_decay = 0.01
no_decay = ["*.bias"]
clip_norm = CLIP
"""


def launch(bin_dir, job, run_dir, settings, pauses=0, seed=0):
    command = [os.path.join(bin_dir, "capstan"), "launch", job, "--run-dir", run_dir]
    for setting in settings:
        command += ["--set", setting]
    with open(os.path.join(os.path.dirname(run_dir), os.path.basename(run_dir) + ".out"), "w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
        rng = random.Random(seed)
        while pauses > 0 and process.poll() is None:
            pauses -= 1
            pause_a_worker(run_dir, rng, process)
        code = process.wait(timeout=2 * harness.DEADLINE)
    if code != 0:
        with open(out.name) as text:
            sys.exit(f"launch {settings} ended with {code}:\n{text.read()[-4000:]}")
    with open(os.path.join(run_dir, "final.safetensors"), "rb") as final:
        return hashlib.sha256(final.read()).hexdigest()


def pause_a_worker(run_dir, rng, process):
    """Stops a worker once the job commits steps, until its slots have moved, or were in no step any more."""
    recovery.poll(lambda: steps_of(run_dir) or process.poll() is not None, "the first step")
    workers = [name for name in recovery.names_in(run_dir) if name.startswith("worker-")]
    pid = recovery.pid_of(run_dir, rng.choice(workers))
    moved = count_in_log(run_dir, MOVED)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
        recovery.poll(lambda: count_in_log(run_dir, MOVED) > moved or len(steps_of(run_dir)) == STEPS, "the move of its slots")
        os.kill(pid, signal.SIGCONT)


def count_in_log(run_dir, text):
    with open(os.path.join(run_dir, "logs", "coordinator.log"), errors="replace") as log:
        return sum(text in line for line in log)


def blocks_of(run_dir):
    """Returns the number of blocks of each tensor, from the sizes in final.safetensors."""
    with open(os.path.join(run_dir, "final.safetensors"), "rb") as final:
        (length,) = struct.unpack("<Q", final.read(8))
        header = json.loads(final.read(length))
    header.pop("__metadata__", None)
    elements = [(tensor["data_offsets"][1] - tensor["data_offsets"][0]) // 4 for tensor in header.values()]
    return [-(-count // BLOCK_ELEMENTS) for count in elements]


def shards_of(run_dir):
    with open(os.path.join(run_dir, "endpoints.json")) as endpoints:
        return len(json.load(endpoints)["shards"])


def steps_of(run_dir):
    path = os.path.join(run_dir, "metrics.jsonl")
    if not os.path.exists(path):
        return []
    with open(path) as lines:
        return [json.loads(line) for line in lines if line.endswith("\n")]


def main():
    bin_dir = sys.argv[2]
    with tempfile.TemporaryDirectory(prefix="same-bits-") as folder:
        job = os.path.join(folder, "job.toml")
        # A run without clipping finds the clip norm that half of the steps exceed.
        with open(job, "w") as out:
            out.write(JOB.replace("CLIP", "0.0"))
        launch(bin_dir, job, os.path.join(folder, "probe"), [])
        norms = sorted(step["grad_norm"] for step in steps_of(os.path.join(folder, "probe")))
        clip = norms[len(norms) // 2]
        with open(job, "w") as out:
            out.write(JOB.replace("CLIP", repr(clip)))

        cases = [("reference", [], 0), ("again", [], 0)]
        cases += [(f"{n} workers", [f"cluster.workers={n}"], 0) for n in (2, 3, 5)]
        cases += [(f"{n} shards", [f"cluster.servers={n}", "cluster.workers=2"], 0) for n in (3, 12)]
        cases += [("2 servers of 2 shards", ["cluster.servers=2", "cluster.shards_per_server=2"], 0)]
        cases += [("2 threads", ["worker.threads=2"], 0)]
        cases += [("paused workers", ["cluster.workers=3", "cluster.servers=2", "job.name=\"same-bits\""], 2)]
        digests = {}
        for index, (name, settings, pauses) in enumerate(cases):
            run_dir = os.path.join(folder, f"run-{index}")
            digests[name] = launch(bin_dir, job, run_dir, settings, pauses, seed=index)
            steps = steps_of(run_dir)
            print(f"{name:24} {digests[name][:16]}  loss {steps[0]['loss']:.4f} -> {steps[-1]['loss']:.4f}", flush=True)
            clipped = sum(step["grad_norm"] > clip for step in steps)
            if not 0 < clipped < len(steps):
                sys.exit(f"{name}: clipping was active in {clipped} of {len(steps)} steps: it must be in some, not all")
            if len(steps) != STEPS:
                sys.exit(f"{name}: {len(steps)} lines in metrics.jsonl, not {STEPS}")
            check_that_it_was_so(name, run_dir, pauses)
        check_same(digests)
        mean = gpt_digests(bin_dir, folder, "mean")
        median = gpt_digests(bin_dir, folder, "median")
        check_same(mean)
        check_same(median)
        if mean["reference"] == median["reference"]:
            sys.exit("gpt: the median of the slots' gradients gives the bits of their mean")
        for kind, rate in (("lamb", "lr = 0.01"), ("lars", "lr = 0.05\ntrust_coefficient = 0.1")):
            check_same(trust_digests(bin_dir, folder, kind, rate))
    print(f"{len(cases)} runs, one sha256; and one for a GPT, for its median, for lamb and for lars")


def check_that_it_was_so(name, run_dir, pauses):
    """Checks that what the name of a case promises has happened. Otherwise equal bits would prove nothing."""
    blocks = blocks_of(run_dir)
    if max(blocks) < 2:
        sys.exit(f"{name}: no tensor has several blocks: {blocks}")
    if name == "12 shards" and not shards_of(run_dir) == 12 > sum(blocks):
        sys.exit(f"{name}: {shards_of(run_dir)} shards for {sum(blocks)} blocks: there must be 12, more than blocks")
    if pauses > 0 and count_in_log(run_dir, MOVED) == 0:
        sys.exit(f"{name}: no slots moved, though workers were paused for longer than their lease")


def check_same(digests):
    different = [name for name, digest in digests.items() if digest != digests["reference"]]
    if different:
        sys.exit(f"other bits than the reference: {', '.join(different)}")


def gpt_digests(bin_dir, folder, aggregation):
    job = os.path.join(folder, f"{aggregation}.toml")
    with open(job, "w") as out:
        out.write(GPT_JOB.replace("slots = 5", f'slots = 5\naggregation = "{aggregation}"'))
    cases = {"reference": ["cluster.workers=1", "cluster.servers=1"], "3 workers": ["cluster.workers=3", "cluster.servers=2"],
             "2 threads": ["cluster.workers=1", "cluster.servers=1", "worker.threads=2"]}
    digests = {}
    for index, (name, settings) in enumerate(cases.items()):
        digests[name] = launch(bin_dir, job, os.path.join(folder, f"{aggregation}-{index}"), settings)
        print(f"gpt, {aggregation + ', ' + name:19} {digests[name][:16]}", flush=True)
    return digests


def trust_digests(bin_dir, folder, kind, rate):
    job = os.path.join(folder, f"{kind}.toml")
    text = TRUST_JOB.replace("OPTIMIZER", f'kind = "{kind}"\n{rate}')
    with open(job, "w") as out:
        out.write(text.replace("CLIP", "0.0"))
    probe = os.path.join(folder, f"{kind}-probe")
    launch(bin_dir, job, probe, [])
    steps = steps_of(probe)
    if not steps[-1]["loss"] < 0.9 * steps[0]["loss"]:
        sys.exit(f"{kind}: nothing is learned: loss {steps[0]['loss']} -> {steps[-1]['loss']}")
    clip = sorted(step["grad_norm"] for step in steps)[len(steps) // 2]
    with open(job, "w") as out:
        out.write(text.replace("CLIP", repr(clip)))
    digests = {}
    for name, servers, workers in (("reference", 1, 1), ("2 shards", 2, 1), ("3 shards", 3, 2)):
        run_dir = os.path.join(folder, f"{kind}-{servers}")
        digests[name] = launch(bin_dir, job, run_dir, [f"cluster.servers={servers}", f"cluster.workers={workers}"])
        steps = steps_of(run_dir)
        clipped = sum(step["grad_norm"] > clip for step in steps)
        loss = f"loss {steps[0]['loss']:.4f} -> {steps[-1]['loss']:.4f}"
        print(f"{kind + ', ' + name:24} {digests[name][:16]}  {loss}", flush=True)
        if not 0 < clipped < len(steps):
            sys.exit(f"{kind}, {name}: clipping was active in {clipped} of {len(steps)} steps: it must be in some, not all")
        if max(blocks_of(run_dir)) < 3:
            sys.exit(f"{kind}, {name}: no tensor has three blocks: {blocks_of(run_dir)}")
    return digests


if __name__ == "__main__":
    main()
