#!/usr/bin/python3
"""A worker in Python and numpy, with the package installed by `cmake --install`: the same bits for any number of its
processes, even if one is killed, and a typed error for each wrong use."""
import functools
import os
import re
import signal
import struct
import sys

import harness
import own_workers
import skips

# A worker that prints the exception by which its lines ended.
SCRIPT = """
import gc, os, sys
import capstan, numpy as np

CLASS = "of the test"
TENSORS = [capstan.Tensor("weight", (20, 5), initial="normal", scale=0.1), capstan.Tensor("bias", (5,))]

def first_slot(client):
    client.declare(TENSORS, numeric_class=CLASS)
    return next(next(client.work()).slots)

try:
    with capstan.connect(sys.argv[1], sys.argv[2], join_seconds=2, on_notice=lambda text: None) as client:
        pass
{lines}
except capstan.Error as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""
# Mistakes of programs, and the error that each of them gets. The first program declares the job's tensors.
WRONG_USES = {
    "a tensor that was not declared": (["slot = first_slot(client)", "slot.begin(1)", "slot.ready('wieght')"],
                                       "^Invalid: .*wieght"),
    "an element that a tensor does not have": (
        ["slot = first_slot(client)", "slot.begin(1)", "slot.ready_from('bias', 5)"],
        '^Invalid: .*tensor "bias" has 5 elements, so there is no element 5'),
    "an element below the first": (["slot = first_slot(client)", "slot.begin(1)", "slot.ready_from('bias', -1)"],
                                   '^Invalid: tensor "bias" has no element -1'),
    "an element above all": (["slot = first_slot(client)", "slot.begin(1)", "slot.ready_from('bias', 2 ** 64)"],
                             '^Invalid: tensor "bias" has no element 18446744073709551616'),
    "a part that is final already": (
        ["slot = first_slot(client)", "slot.begin(1)", "slot.ready_from('weight', 50)", "slot.ready_from('weight', 20)",
         "slot.ready_from('weight', 20)"], '^Invalid: .*tensor "weight" is final from element 20 on'),
    "a slot begun twice": (["slot = first_slot(client)", "slot.begin(1)", "slot.begin(1)"], "^Invalid: .*next slot"),
    "an end without a begin": (["first_slot(client).end(0.0, 0)"], "^Invalid: .*was begun"),
    "a gradient of no samples": (["first_slot(client).begin(0)"], r"^Invalid: .*skip\(\)"),
    "work before tensors": (["next(client.work())"], "^Invalid: .*after Declare"),
    "tensors declared twice": (["client.declare(TENSORS)"] * 2, "^Invalid: .*once"),
    "a shape that cannot be": (["client.declare([capstan.Tensor('w', (-1,))])"], '^Invalid: .*"w"'),
    "a tensor without elements": (
        ["client.declare([capstan.Tensor('w', (0, 3), initial='given')], given={'w': np.zeros((0, 3), 'f')})"],
        r'^Invalid: tensor "w": an extent of .*\(0, 3\)'),
    "given weights of a shape that cannot be": (
        ["client.declare([capstan.Tensor('w', (-1,), initial='given')], given={'w': np.zeros(1, 'f')})"],
        '^Invalid: tensor "w": an extent of'),
    "an unknown beginning": (["capstan.Tensor('w', (2,), initial='normals')"], '^Invalid: .*"normals"'),
    "hyper-parameters of tensors without a group": (
        ["client.declare(TENSORS, numeric_class=CLASS)",
         "client.set_hyper_parameters([capstan.HyperParameters(0.1)])"],
        "^Invalid: .*the job file owns them"),
    "a beta of one": (["client.declare([capstan.Tensor('w', (2,), group=1)])",
                       "client.set_hyper_parameters([capstan.HyperParameters(0.1, betas=(0.9, 1.0))])"],
                      "^Invalid: .*group 1: beta2 is 1;"),
    "a norm below zero": (["client.declare(TENSORS, numeric_class=CLASS)", "client.set_clip_norm(-1)"],
                          "^Invalid: .*SetClipNorm: the norm to clip to is -1"),
    "both limits": (["client.declare(TENSORS, numeric_class=CLASS)", "client.set_clip_norm(1)",
                     "client.set_clip_value(1)"], "^Invalid: .*set one of them to 0"),
    "groups with a gap": (["client.declare([capstan.Tensor('w', (2,), group=1), capstan.Tensor('b', (2,))])"],
                          '^Invalid: .*"b" is of optimizer group 0'),
    "a zero byte in a name": (["client.declare([capstan.Tensor('a\\0b', (1,))])"], "^Invalid: .*zero byte"),
    "a metric with a space": (["slot = first_slot(client)", "slot.begin(1)",
                               "slot.end(0.0, 1, metrics={'top 5': (1.0, 1.0)})"], '^Invalid: .*metric "top 5"'),
    "a barrier before tensors": (["client.barrier(0)"], "^Invalid: .*after Declare"),
    "another catalog": (["client.declare([capstan.Tensor('weight', (20, 6))], numeric_class=CLASS)",
                         "next(client.work())"], r"^Refused: .*weight.*\[20, 6\]"),
    "another numeric class": (["client.declare(TENSORS, numeric_class='other')", "next(client.work())"],
                              "^Refused: .*of the test"),
}


class NumpyWorkerTest(own_workers.OwnWorkersTest):
    EXAMPLE = "python"

    PROGRAM = os.path.join(own_workers.EXAMPLES, "python", "softmax.py")

    def worker(self, coordinator, name):
        return self.python(self.PROGRAM, coordinator, name)

    def undisturbed(self):
        """Returns the digest of an undisturbed job, whose worker is a new Python process: it has imported nothing before."""
        return self.once("undisturbed", lambda: self.digest_of_one(functools.partial(self.new_python, self.PROGRAM)))

    def test_two_processes_give_the_bits_of_one_and_learn(self):
        self.assertEqual(self.digest_of_two(self.worker), self.undisturbed())
        self.assertEqual(self.weights("two")[0], ["weight", "bias"])
        losses = [record["loss"] for record in self.metrics("two")]
        self.assertLess(losses[-1], 0.5 * losses[0])

    def test_hyper_parameters_of_the_program_give_the_bits_of_the_job_file_s_where_they_are_equal(self):
        """The program sets the hyper-parameters of two groups: first to the job file's values, then one rate to another value."""
        with open(self.PROGRAM, encoding="utf-8") as file:
            plain = file.read()

        def start(rate):
            groups = ", ".join(f"capstan.HyperParameters({text}, betas=(0.9, 0.999), eps=1e-8)"
                               for text in ("float(np.float32(0.05))", rate))
            text = plain.replace('scale=0.1)', 'scale=0.1, group=1)').replace('(CLASSES,))]', '(CLASSES,), group=2)]')
            text = text.replace("for slot in work.slots:",
                                f"client.set_hyper_parameters([{groups}])\n            for slot in work.slots:")
            script = self.write("groups.py", text)
            return lambda coordinator, name: self.python(script, coordinator, name)

        self.assertEqual(self.digest_of_two(start("float(np.float32(0.05))")), self.undisturbed())
        self.assertNotEqual(self.digest_of_one(start("0.04 / (1 + work.step)"), run="another"), self.undisturbed())

    def test_a_norm_that_the_program_gives_has_the_bits_of_the_job_file_s_and_comes_back(self):
        with open(self.PROGRAM, encoding="utf-8") as file:
            plain = file.read()
        loop = "        for work in client.work():\n"
        text = plain.replace(loop, "        client.set_clip_norm(0.05)\n" + loop +
                             "            print(f'norm {work.step} {work.grad_norm!r}', flush=True)\n")
        script = self.write("clipped.py", text)

        def start(coordinator, name):
            return self.python(script, coordinator, name)

        with self.job("of-job", 1, "optimizer.clip_norm=0.05") as launch, \
                self.worker(self.address(launch), "a") as worker:
            wanted = self.digest_at_end(launch, "of-job", [worker])
        self.assertNotEqual(wanted, self.undisturbed())
        with self.job("by-program", 1) as launch, start(self.address(launch), "a") as worker:
            self.assertEqual(self.digest_at_end(launch, "by-program", [worker]), wanted)
        printed = {int(step): float(norm) for step, norm in re.findall(r"^norm (\d+) (\S+)$", worker.output, re.M)}
        norms = {record["step"] + 1: record["grad_norm"] for record in self.metrics("by-program")}
        self.assertEqual(printed.pop(0), 0.0)
        self.assertEqual(printed, {step: norm for step, norm in norms.items() if step < self.STEPS})
        self.assertEqual(self.digest_with_a_killed_worker(start), wanted)
        self.assertEqual(self.digest_with_a_killed_server(start), wanted)

    def test_a_process_that_is_killed_changes_no_bit(self):
        self.assertEqual(self.digest_with_a_killed_worker(self.worker), self.undisturbed())
        self.assertEqual(self.digest_with_a_killed_server(self.worker), self.undisturbed())

    def test_two_processes_meet_in_a_barrier_and_one_that_is_missing_is_named(self):
        with open(self.PROGRAM, encoding="utf-8") as file:
            before, after = file.read().split("        for work in client.work():")

        def script(name, *lines):
            return self.write(name, before + "".join(f"        {line}\n" for line in lines) +
                              "        for work in client.work():" + after)

        early = script("early.py", "while True:", "    try:", "        client.barrier(seconds=0.5)", "        break",
                       "    except capstan.Timeout as error:", "        print(error, flush=True)",
                       "print('passed', flush=True)")
        late = script("late.py", "open('go').read()", "client.barrier()", "print('came', flush=True)")
        os.mkfifo(self.path("go"))
        with self.job("barrier", 2, "job.steps=3") as launch:
            address = self.address(launch)
            with self.python(early, address, "early") as a, self.python(late, address, "late") as b:
                a.wait_for_line("waited for late in a barrier")
                self.assertNotIn("passed", a.output)
                with open(self.path("go"), "w", encoding="utf-8"):
                    pass  # the other one reads to its end
                a.wait_for_line("passed")
                self.digest_at_end(launch, "barrier", [a, b])
                self.assertIn("came", b.output)

    def test_metrics_of_two_processes_are_averaged_over_all_slots_of_each_step(self):
        with open(self.PROGRAM, encoding="utf-8") as file:
            script = self.write("metrics.py", file.read().replace(
                "predictions=samples)",
                "predictions=samples, metrics={'slot': (3.0 * slot.index, 2.0), 'none': (1.0, 0.0)})"))
        with self.job("metrics", 2, "job.steps=3") as launch:
            address = self.address(launch)
            with self.python(script, address, "a") as a, self.python(script, address, "b") as b:
                self.digest_at_end(launch, "metrics", [a, b])
        for record in self.metrics("metrics"):
            self.assertEqual(record["metrics"], {"none": None, "slot": 3.0 * (0 + 1 + 2 + 3) / (4 * 2.0)})

    def said_by(self, coordinator, lines, worker="w"):
        """Runs these lines in a worker, and returns its output."""
        script = self.write("worker.py", SCRIPT.format(lines="\n".join("        " + line for line in lines)))
        with self.python(script, coordinator, worker) as process:
            self.assertEqual(process.wait(), 0, process.output)
            return process.output

    def test_wrong_uses_end_in_an_exception_of_their_kind(self):
        with self.job("wrong", 1) as launch:
            address = self.address(launch)
            for index, (name, (lines, said)) in enumerate(WRONG_USES.items()):
                with self.subTest(name):
                    self.assertRegex(self.said_by(address, lines, f"w{index}"), said)

    def test_without_a_coordinator_nothing_is_trained(self):
        address = harness.free_address()
        self.assertRegex(self.said_by(address, []), "^Unreachable: no answer from the coordinator")
        with self.worker(address, "") as worker:
            self.assertEqual(worker.wait(), 1)
            self.assertRegex(worker.output, "^Invalid: .*name")

    def test_ctrl_c_is_heard_while_there_is_no_coordinator(self):
        script = self.write("waits.py", "import capstan, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
                            f"capstan.connect({harness.free_address()!r}, join_seconds={10 * harness.DEADLINE})\n")
        with self.new_python(script) as program:
            program.wait_for_line("for the coordinator")
            harness.kill(program.pid, signal.SIGINT)
            self.assertNotEqual(program.wait(), 0)
        self.assertIn("KeyboardInterrupt", program.output)

    def test_launch_gives_address_and_name_by_the_environment(self):
        with self.launch(os.path.join(own_workers.EXAMPLES, "python", "job.toml"), "--set", "cluster.workers=2", "--set",
                         "job.steps=3", "--", sys.executable, "-B", self.PROGRAM, run="launched") as launch:
            self.digest_at_end(launch, "launched", [])
        self.assertIn('"worker-1" joined', launch.output)

    def test_without_an_environment_the_coordinator_is_to_be_named(self):
        with self.python(self.PROGRAM) as worker:
            self.assertEqual(worker.wait(), 1)
            self.assertRegex(worker.output, "^Invalid: no coordinator is named: .*set CAPSTAN_COORDINATOR")

    def test_a_client_is_the_process_that_connected_it(self):
        lines = ["slot = first_slot(client)", "if os.fork() == 0:", "    client.leave()", "os.wait()",
                 "slot.begin(1)['bias'][0] = 1.0", "print('the parent computes')"]
        with self.job("forked", 1) as launch:
            said = self.said_by(self.address(launch), lines)
        self.assertRegex(said, r"(?s)^Invalid: .*fork\(\).*the parent computes$")

    # This test is here and not next to the test in C, because ThreadSanitizer ends a child of fork() that starts a
    # thread.
    def test_a_child_may_connect_a_client_of_its_own(self):
        lines = ["child = os.fork()", "if child == 0:",
                 "    capstan.connect(sys.argv[1], 'child', on_notice=lambda text: None).leave()", "    os._exit(0)",
                 "print('the child ended with', os.waitpid(child, 0)[1])"]
        with self.job("forked", 1) as launch:
            self.assertEqual(self.said_by(self.address(launch), lines), "the child ended with 0")

    def test_views_are_of_the_client_s_memory_and_outlive_it(self):
        lines = ["client.declare(TENSORS, numeric_class=CLASS)", "work = next(client.work())",
                 "weight, flat = work.weights['weight'], work.weights.flat",
                 "print(weight.shape, weight.format, weight.readonly, flat[:100].tolist() == sum(weight.tolist(), []))",
                 "gradient = next(work.slots).begin(np.int64(1))", "gradient['bias'][4] = 2.5",
                 "print(gradient.flat[104])", "client.leave()", "del client, work, gradient", "gc.collect()",
                 "print(len(weight.tolist()), flat[104])"]
        with self.job("views", 1) as launch:
            self.assertEqual(self.said_by(self.address(launch), lines), "(20, 5) f True True\n2.5\n20 0.0")

    def test_a_statistic_goes_a_tenth_of_the_way_to_what_was_seen(self):
        lines = ["client.declare([capstan.Tensor('seen', (3,), statistic=True), capstan.Tensor('w', (2,))], numeric_class=CLASS)",
                 "for work in client.work():", "    if work.step == 1: print(work.weights['seen'].tolist())",
                 "    for slot in work.slots:", "        gradient = slot.begin(1)",
                 "        gradient['seen'], gradient['w'] = np.full(3, 2.0 * slot.index, 'f'), np.zeros(2, 'f')",
                 "        slot.end(0.0, 1)"]
        with self.job("seen", 1, "job.steps=2") as launch:  # in 4 slots
            said = self.said_by(self.address(launch), lines)
            self.digest_at_end(launch, "seen", [])
        self.assertEqual(said, str([struct.unpack("f", struct.pack("f", 0.3))[0]] * 3))


class PackageTest(own_workers.OwnWorkersTest):
    def said(self, *lines):
        with self.python("-c", "\n".join(lines)) as process:
            self.assertEqual(process.wait(), 0, process.output)
            return process.output

    def test_its_version_is_the_project_s(self):
        with open(os.path.join(own_workers.HERE, "..", "..", "CMakeLists.txt"), encoding="utf-8") as file:
            version = re.search(r"project\(capstan VERSION (\S+)", file.read()).group(1)
        self.assertEqual(self.said("import capstan", "print(capstan.__version__)"), version)

    def test_a_library_of_an_older_interface_is_refused(self):
        said = self.said("import capstan.abi", "capstan.abi.VERSION = 99", "try: capstan.abi.load()",
                         "except ImportError as error: print(error)")
        self.assertRegex(said, "libcapstan_client.* has interface 4, and capstan's Python package needs 99: install both")

    def test_lines_for_people_are_logged_where_the_program_logs_and_else_printed(self):
        say = "capstan.notices.log.warning('waiting 5 s for slot 0: 50% is there')"
        self.assertEqual(self.said("import capstan", say), "capstan: waiting 5 s for slot 0: 50% is there")
        self.assertEqual(self.said("import capstan, logging", "logging.basicConfig()", say),
                         "WARNING:capstan:waiting 5 s for slot 0: 50% is there")


if __name__ == "__main__":
    skips.main("numpy")
