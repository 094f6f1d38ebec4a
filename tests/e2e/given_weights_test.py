#!/usr/bin/python3
"""First weights from a worker: they are one worker's, whichever process is killed before and after the first step."""
import os
import signal
import struct

import harness
import own_workers
import recovery

# A worker whose third argument is the value that its weights begin with. Its given tensor has two blocks; its other
# tensor is not given.
SCRIPT = """
import array, sys
import capstan

ROWS = 150000
TENSORS = [capstan.Tensor("table", (ROWS, 2), initial="given"), capstan.Tensor("bias", (3,), initial="ones")]
address, name, value = sys.argv[1:]
table = memoryview(array.array("f", [float(value)]) * (2 * ROWS)).cast("B").cast("f", (ROWS, 2))
with capstan.connect(address, name) as client:
    client.declare(TENSORS, numeric_class="of the test", given={"table": table})
    for work in client.work():
        for slot in work.slots:
            gradient = slot.begin(1)
            step = 0.01 * work.weights.flat[2 * ROWS - 1] + 0.001 * work.step + slot.index
            gradient.flat[:] = array.array("f", [step]) * (2 * ROWS + 3)
            slot.end(1.0, predictions=1)
"""
WRONG = """
import array, sys
import capstan
def matrix(code, value):
    return memoryview(array.array(code, [value] * 4)).cast("B").cast(code, (2, 2))
try:
    with capstan.connect(sys.argv[1], "w", on_notice=lambda text: None) as client:
        client.declare([capstan.Tensor("w", (2, 2), initial="given")], given={given})
except capstan.Error as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""
WRONG_USES = {
    "{}": '^Invalid: tensor "w" has initial="given"',
    "{'w': array.array('f', [0] * 4)}": r'^Invalid: the values given for "w" are of format "f" and shape \(4,\)',
    "{'w': matrix('d', 0)}": '^Invalid: the values given for "w" are of format "d"',
    "{'w': [[0.0] * 2] * 2}": r'^Invalid: the values given for "w" are a list, .*__dlpack__\(\)',
    "{'v': matrix('f', 0)}": '^Invalid: first weights are given for "v"',
    "{'w': matrix('f', float('nan'))}": "^Invalid: .*element 0 of them is -?nan",
}


class GivenWeightsTest(own_workers.OwnWorkersTest):
    EXAMPLE = "python"
    STEPS = 60
    IMPORTED = ("capstan",)

    def worker(self, address, name, value="1"):
        return self.python(self.write("given.py", SCRIPT), address, name, value)

    def trained(self, value):
        with self.job("undisturbed" + value, 1) as launch:
            with self.worker(self.address(launch), "only", value) as worker:
                return self.digest_at_end(launch, "undisturbed" + value, [worker])

    def undisturbed(self, value):
        return self.once(value, lambda: self.trained(value))

    def test_the_job_begins_with_what_was_given_and_keeps_it(self):
        self.assertNotEqual(self.trained("1"), self.undisturbed("2"))
        names, content = self.weights("undisturbed1")
        self.assertEqual(names, ["table", "bias"])
        self.assertNotEqual(struct.unpack("<f", content[-12:-8]), (1.0,))
        manifests = harness.program("capstan"), "snapshot", "list", "--run-dir", self.path("undisturbed1")
        with harness.Process(*manifests) as listing:
            self.assertEqual(listing.wait(), 0, listing.output)

    def test_processes_killed_after_the_first_step_change_no_bit(self):
        one = self.undisturbed("1")
        self.assertEqual(self.digest_with_a_killed_worker(self.worker), one)
        self.assertEqual(self.digest_with_a_killed_server(self.worker), one)

    def test_a_founder_killed_before_the_first_step_leaves_nothing(self):
        with self.job("founder", 2) as launch:
            address = self.address(launch)
            with self.worker(address, "a", "1") as a:
                launch.wait_for_line('"a" joined (1 of 2 workers)')
                os.kill(a.pid, signal.SIGSTOP)  # it is the founder, and gives nothing
                with self.worker(address, "b", "2") as b:
                    launch.wait_for_line("running: ")
                    os.kill(a.pid, signal.SIGKILL)
                    launch.wait_for_line('"a" is gone before its first weights were kept')
                    digest = self.digest_at_end(launch, "founder", [b])
        self.assertEqual(digest, self.undisturbed("2"))

    def test_a_server_killed_before_the_first_step_costs_nothing(self):
        patient = f"limits.lease={harness.DEADLINE}"  # with a process that stands still while a server is started
        with self.job("server", 2, patient) as launch:
            address = self.address(launch)
            with self.worker(address, "a", "1") as a:
                launch.wait_for_line('"a" joined (1 of 2 workers)')
                os.kill(a.pid, signal.SIGSTOP)
                with self.worker(address, "b", "1") as b:
                    launch.wait_for_line("running: ")
                    os.kill(recovery.pid_of(self.path("server"), "server-0"), signal.SIGKILL)
                    launch.wait_for_line("server 0 was lost and came back")
                    os.kill(a.pid, signal.SIGCONT)
                    digest = self.digest_at_end(launch, "server", [a, b])
        self.assertEqual(digest, self.undisturbed("1"))

    def test_wrong_first_weights_end_in_a_typed_error(self):
        with self.job("wrong", 1) as launch:
            address = self.address(launch)
            for given, said in WRONG_USES.items():
                with self.subTest(given), self.python(self.write("w.py", WRONG.format(given=given)), address) as worker:
                    self.assertEqual(worker.wait(), 0, worker.output)
                    self.assertRegex(worker.output, said)


if __name__ == "__main__":
    harness.main()
