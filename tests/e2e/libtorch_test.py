#!/usr/bin/python3
"""A program of libtorch's as a worker: the loss curve of libtorch alone, the same bits for any number of processes and
whichever is killed, an answer to each mistake, and the example built against an installed capstan."""
import os
import re
import subprocess

import gate
import harness
import installed_prefix
import own_workers
import skips

PROGRAM = os.environ.get("CAPSTAN_LIBTORCH_TRAINING")
STEPS = 50
MORE = 10  # steps after the job
# Each optimizer with its schedule and clipping: settings of the job file, and arguments of the program.
CURVES = {
    "sgd": ({"optimizer.kind": '"sgd"'}, []),
    "momentum": ({"optimizer.kind": '"momentum"'}, ["schedule=warmup", "clip=0.3"]),
    "adamw": ({}, ["schedule=steplr", "clip=0.3"]),
    "adam-amsgrad": ({"optimizer.kind": '"adam"', "optimizer.amsgrad": "true"}, ["clip_value=0.01"]),
    "adagrad": ({"optimizer.kind": '"adagrad"'}, ["schedule=warmup"]),
    "rmsprop": ({"optimizer.kind": '"rmsprop"', "optimizer.centered": "true", "optimizer.momentum": "0.9"}, []),
}
MISTAKES = {
    "another optimizer": 'invalid: .*optimizer is Adam.*optimizer.kind = "adamw"; set it to "adam" in the job file',
    "an optimizer with a closure": "unsupported: .*use torch::optim's SGD, Adam, AdamW, Adagrad or RMSprop",
    "an option of the job file": "invalid: AdamW, group 0 has amsgrad=true.*optimizer.amsgrad = false.*set it to true in the job file",
    "steps before": "unsupported: AdamW has taken steps already.*capstan launch --resume",
    "a parameter in no group": r'invalid: parameter "middle.weight" is in no group.*set_requires_grad\(false\)',
    "a parameter of another model": r"invalid: the optimizer has a parameter of shape \[3\] in group 1",
    "another type": r'unsupported: parameter "first.weight" is of Double on cpu.*model.to\(torch::kFloat\)',
    "two schedules": "invalid: PrepareOptions has a schedule and a scheduler",
    "a cumulative norm": r'unsupported: the norm of buffer "extra.running_mean".*momentum\(0.1\)',
    "backward by hand": r"invalid: Step\(\): slot 0 of step 0 has 32 samples, and Backward\(\) has covered 0: write trainer->Backward",
    "backward by hand before": r'invalid: parameter "first.weight" has a gradient in step 0.*write trainer->Backward\(loss\) in place of',
    "no step": r"invalid: slot 0 of step 0 was handed out.*write trainer->Step\(\) in place of optimizer.step\(\)",
    "the optimizer's step": r'unsupported: parameter "first.weight" was changed.*Write trainer->Step\(\) in place of optimizer.step\(\)',
    "clipping by libtorch": r'invalid: the gradient of parameter "first.weight" was changed.*write trainer->ClipNorm\(max_norm\)',
    "a rate by hand": r"invalid: the optimizer's numbers were changed within step 0.*group 0 has lr=0.5.*had lr=0.01.*PrepareOptions::schedule",
    "weights by hand": r'unsupported: parameter "last.weight" was changed by the program in step 0.*forward pass',
    "a sum": r"invalid: Backward\(loss\): the loss is a sum.*Reduction::kSum",
    "a loss of several numbers": r"invalid: Backward\(loss\): the loss has the shape \[320, 1\].*loss.mean\(\)",
    "a loss without a graph": r"invalid: Backward\(loss\): no parameter's gradient follows.*NoGradGuard",
    "an unused parameter": r'invalid: parameter "middle.weight" has no gradient.*Unused::kZero',
    "too many samples": r"invalid: Backward\(loss\) with 100 samples: slot 0 has 32",
    "too few samples": r"invalid: Step\(\): slot 0 of step 0 has 32 samples, and Backward\(\) has covered 5",
    "gradients cleared too early": r"invalid: the gradient of parameter .* between Backward\(\) and the next Backward\(\).*zero_grad\(\) before",
    "a graph that is gone": r"invalid: Backward\(loss\) of step 0: libtorch refuses it: Trying to backward through the graph a second time",
    "a buffer that changes": 'unsupported: buffer "seen" changed in step 0',
    "a frozen parameter": 'invalid: parameter "last.bias" was frozen after',
    "a new parameter": 'invalid: parameter "late" was replaced or added after',
    "a limit of 0": r"invalid: ClipNorm\(0\): a limit is positive",
    "a schedule that throws": r"invalid: PrepareOptions::schedule of step 0: an exception ended it: shape",
}


def program(*arguments, **variables):
    words = [f"{name}={value}" for name, value in {"OMP_NUM_THREADS": "1", **variables}.items()]
    return harness.Process("/usr/bin/env", *words, PROGRAM, *arguments)


def numbers(lines):
    return [float(line) for line in lines if re.fullmatch(r"[\d.e+-]+", line)]


class LibtorchTest(own_workers.OwnWorkersTest):
    STEPS = 80
    SETUP = ("noisy=1", "kind=adamw", "schedule=steplr", "clip=0.5")

    def job(self, run, workers, *more, **settings):
        settings = {"job.steps": self.STEPS, "job.global_batch": 64, "job.slots": 4, "cluster.workers": workers,
                    "cluster.servers": 2, "limits.lease": harness.patient(2), "limits.join": harness.DEADLINE, **settings}
        return self.launch(os.path.join(own_workers.EXAMPLES, "libtorch", "job.toml"),
                           *(word for name, value in settings.items() for word in ("--set", f"{name}={value}")), *more, run=run)

    def worker(self, address, name, *arguments, **variables):
        if self.gates:
            variables[gate.VARIABLE] = " ".join(one.text for one in self.gates)
        return program("worker", *(arguments or self.SETUP), CAPSTAN_COORDINATOR=address, CAPSTAN_WORKER=name, **variables)

    def plain(self, *arguments):
        """Returns the losses of libtorch alone, and the lines that follow."""
        with program("plain", *arguments) as alone:
            self.assertEqual(alone.wait(), 0, alone.output)
            return numbers(alone.lines), [line for line in alone.lines if line.startswith("norm.")]

    def trained(self, run, arguments, settings):
        """Trains with one process. Returns the losses and the process's output."""
        with self.job(run, 1, **{"job.steps": STEPS, "job.slots": 2, **settings}) as launch, \
                self.worker(self.address(launch), "a", *arguments) as worker:
            self.digest_at_end(launch, run, [worker])
            return [record["loss"] for record in self.metrics(run)], worker.lines

    def assert_near(self, got, wanted, tolerance):
        self.assertEqual(len(got), len(wanted))
        worst = max(abs(a - b) / max(1.0, b) for a, b in zip(got, wanted))
        self.assertLessEqual(worst, tolerance)
        self.assertLess(wanted[-1], wanted[0], "nothing was learned")
        return worst


class LossCurveTest(LibtorchTest):
    def test_one_process_has_the_losses_of_libtorch_alone(self):
        """Also after the job, where libtorch goes on with the job's weights and the state of its optimizer."""
        for kind, (settings, arguments) in CURVES.items():
            with self.subTest(kind):
                arguments = [f"kind={kind}", *arguments]
                losses, lines = self.trained(kind, [*arguments, f"until={STEPS + MORE}"], settings)
                wanted, _ = self.plain(f"steps={STEPS + MORE}", *arguments)
                losses += numbers(lines)
                print(f"{kind}: {self.assert_near(losses, wanted, 1e-5):.1e} from libtorch alone")

    def test_the_statistics_of_a_norm_are_those_of_libtorch_alone(self):
        """Without dropout, for which libtorch alone draws other numbers, and without Adam, which moves a bias before a norm by
        its rounding errors."""
        arguments = ["kind=momentum", "noisy=2"]
        losses, lines = self.trained("norm", arguments, {"job.slots": 1, "optimizer.kind": '"momentum"'})
        wanted, buffers = self.plain(f"steps={STEPS}", *arguments)
        self.assert_near(losses, wanted, 1e-5)
        self.assertEqual([line.split()[0] for line in buffers], ["norm.running_mean", "norm.running_var", "norm.num_batches_tracked"])
        for got, alone in zip(lines, buffers):
            self.assertEqual(got.split()[0], alone.split()[0])
            self.assertAlmostEqual(float(got.split()[1]), float(alone.split()[1]), delta=1e-4)

    def test_a_slot_in_pieces_is_the_slot(self):
        whole, _ = self.trained("whole", ["kind=adamw"], {})
        for piece in (8, 20):
            losses, _ = self.trained(f"by-{piece}", ["kind=adamw", f"piece={piece}"], {})
            self.assert_near(losses, whole, 1e-5)
        self.assertEqual(self.metrics("by-8")[0]["metrics"], {"pieces": 1.0})

    def test_the_gradient_of_a_sum_is_that_of_the_sum_over_the_global_batch(self):
        """With a sixty-fourth of the rate and 64 times the weight decay, since the global batch has 64 samples."""
        wanted, _ = self.plain(f"steps={STEPS}", "kind=sgd")
        for piece in (8, 32):
            losses, _ = self.trained(f"sum-{piece}", ["kind=sgd", "reduction=sum", f"piece={piece}"], {"optimizer.kind": '"sgd"'})
            self.assert_near(losses, wanted, 1e-5)


class BitsTest(LibtorchTest):
    """With dropout, BatchNorm, a scheduler and clipping."""

    def undisturbed(self):
        return self.once("one", lambda: self.digest_of_one(self.worker))

    def test_two_processes_and_ranks_of_mpirun_end_with_the_bits_of_one(self):
        one = self.undisturbed()
        self.assertEqual(self.digest_of_two(self.worker), one)
        with self.job("ranks", 4) as launch:
            workers = [program("worker", *self.SETUP, CAPSTAN_COORDINATOR=self.address(launch), OMPI_COMM_WORLD_RANK=rank,
                               OMPI_COMM_WORLD_SIZE=4) for rank in range(4)]
            try:
                self.assertEqual(self.digest_at_end(launch, "ranks", workers), one)
                for rank, worker in enumerate(workers):
                    self.assertIn(f"rank {rank} of 4 is taken from OMPI_COMM_WORLD_RANK", worker.output)
                    self.assertIn(f"rank {rank} main {int(rank == 0)} step {self.STEPS} norm 1", worker.output)
            finally:
                for worker in workers:
                    worker.__exit__()

    def test_a_killed_process_changes_no_bit(self):
        self.assertEqual(self.digest_with_a_killed_worker(self.worker), self.undisturbed())

    def test_a_killed_server_changes_no_bit(self):
        self.assertEqual(self.digest_with_a_killed_server(self.worker), self.undisturbed())

    def test_every_process_ends_with_the_jobs_final_weights(self):
        with self.job("final", 2, **{"job.steps": 10}) as launch:
            address = self.address(launch)
            with self.worker(address, "a", *self.SETUP, f"weights={self.path('a')}") as a, \
                    self.worker(address, "b", *self.SETUP, f"weights={self.path('b')}") as b:
                self.digest_at_end(launch, "final", [a, b])
        for name in "ab":
            with open(self.path(name), "rb") as file:
                self.assertTrue(self.weights("final")[1].endswith(file.read()), f"{name} has other weights")


class MistakesTest(LibtorchTest):
    def test_each_mistake_is_answered_with_the_line_to_write(self):
        with self.job("wrong", 1, **{"job.slots": 2}) as launch, \
                program("mistakes", CAPSTAN_COORDINATOR=self.address(launch), CAPSTAN_WORKER="w") as wrong:
            self.assertEqual(wrong.wait(), 0, wrong.output)
        said = dict(line.split(": ", 1) for line in wrong.lines if not line.startswith("capstan: "))
        self.assertEqual(sorted(said), sorted(MISTAKES))
        for mistake, answer in MISTAKES.items():
            with self.subTest(mistake):
                self.assertRegex(said[mistake], "^" + answer)
        self.assertIn(f"the program ends at step 0 of the job's {self.STEPS}, and the job is not done", wrong.output)

    def test_without_a_job_for_it_the_program_says_what_to_do(self):
        for variables, answer in (({}, "set CAPSTAN_COORDINATOR to the address that capstan launch prints"),
                                  ({"CAPSTAN_BROKER": "x"}, r"capstan launch job.toml -- PROGRAM"),
                                  ({"CAPSTAN_COORDINATOR": "x", "CAPSTAN_INDEX": "3", "CAPSTAN_INDEXES": "2"},
                                   'CAPSTAN_INDEX is "3" and CAPSTAN_INDEXES is "2"')):
            with program("worker", **variables) as lonely:
                self.assertEqual(lonely.wait(), 1, lonely.output)
                self.assertRegex(lonely.output, answer)
        with self.job("async", 1, **{"job.mode": '"async"'}) as launch, self.worker(self.address(launch), "w") as worker:
            self.assertEqual(worker.wait(), 1, worker.output)
            self.assertIn('set job.mode = "sync" in the job file', worker.output)


class InstalledTest(LibtorchTest):
    def test_the_example_is_built_by_cmake_and_trains(self):
        prefix, folder = installed_prefix.prefix(harness.BIN), self.path("built")
        source = os.path.join(prefix, "share", "doc", "capstan", "examples", "embed", "libtorch")
        for command in (["cmake", "-G", "Ninja", "-S", source, "-B", folder, f"-DCMAKE_PREFIX_PATH={prefix}"],
                        ["cmake", "--build", folder]):
            built = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20 * harness.DEADLINE)
            self.assertEqual(built.returncode, 0, built.stdout + built.stderr)
        model = self.path("rings.pt")
        with self.launch(os.path.join(source, "job.toml"), "--", os.path.join(folder, "rings"), model, run="rings") as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        right = re.search(r"held out: ([\d.]+) % right", launch.output)
        self.assertGreater(float(right[1]), 90, launch.output)
        self.assertGreater(os.path.getsize(model), 1000)

    def test_the_library_shows_its_interface_and_the_clients_needs_no_libtorch(self):
        prefix = installed_prefix.prefix(harness.BIN)
        shown = subprocess.run(["nm", "-DC", "--defined-only", os.path.join(prefix, "lib", "libcapstan_libtorch.so")],
                               capture_output=True, text=True, check=True).stdout
        names = {line.split(" ", 2)[2] for line in shown.splitlines() if line.split(" ", 2)[1] != "A"}
        self.assertEqual([name for name in names if "capstan::libtorch::" not in name], [])
        for name in ("lib/libcapstan_client.so", "bin/capstan", "bin/capstan-server", "bin/capstan-worker"):
            needed = subprocess.run(["readelf", "-d", os.path.join(prefix, name)], capture_output=True, text=True, check=True).stdout
            self.assertNotIn("torch", needed)


if __name__ == "__main__":
    skips.main(lack=None if PROGRAM else "libtorch is not there; install libtorch-dev and configure again")
