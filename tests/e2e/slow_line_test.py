#!/usr/bin/python3
"""A worker and a server on a line that takes seconds for a block: the line carries what the job needs, and little more. A
process that repeated by time only would send each block several times.
"""
import contextlib

import fault_proxy
import harness

STEPS = 2
RATE = 400 << 10  # bytes a second each way
PARAMETERS = (512 * 512 + 512) + (512 * 10 + 10)  # a block of 1 MiB and a small one
JOB = """\
[job]
name = "slow-line"
steps = {steps}
global_batch = 2
slots = 1
[model]
kind = "mlp"
hidden = [512]
[data]
kind = "synthetic"
samples = 16
features = 512
classes = 10
[optimizer]
kind = "sgd"
lr = 0.001
[cluster]
servers = 1
workers = 1
coordinator = "{coordinator}"
[worker]
threads = 1
[limits]
join = {join}
[snapshot]
every_seconds = 0
"""


class SlowLineTest(harness.JobTest):
    def test_a_slow_line_carries_what_the_job_needs(self):
        coordinator, address = harness.free_address(), harness.free_address()
        port = int(address.rsplit(":", 1)[1])
        line = fault_proxy.FaultProxy(("127.0.0.1", port), (harness.HOST, port), 1)
        job = self.write("job.toml", JOB.format(steps=STEPS, coordinator=coordinator, join=harness.patient(60)))
        with contextlib.ExitStack() as stack:
            network = stack.enter_context(fault_proxy.ProxyThread([line]))
            network.set_fault(line, fault_proxy.Fault("bandwidth", rate=RATE))
            start = lambda program, *words: stack.enter_context(harness.Process(harness.program(program), *words))
            run = ["--run-dir", self.path("run")]
            head = start("capstan-server", job, "--coordinator", *run)
            head.wait_for_line("metrics at http://")
            server = start("capstan-server", job, "--index", "0", "--set", f"cluster.listen={address}", "--set",
                           "cluster.advertise=127.0.0.1", *run)
            worker = start("capstan-worker", "--coordinator", coordinator, "--name", "w0")
            for process in head, worker, server:
                self.assertEqual(process.wait(), 0, process.output)
            # In each step the weights are pulled and the gradient is pushed. The last version is pulled twice: for the
            # final weights, and by the worker, which then learns that it is the last.
            needed = 4 * PARAMETERS * (2 * STEPS + 2)
            print(f"{line.bytes_passed / needed:.2f} times the {needed} bytes needed", flush=True)
            self.assertGreater(line.bytes_passed, 4 * PARAMETERS * 2 * STEPS)
            self.assertLess(line.bytes_passed, 1.3 * needed)


if __name__ == "__main__":
    harness.main()
