"""A job whose processes are started one by one, in the order that fits least."""
import os

import harness


class ByHandTest(harness.JobTest):
    def test_any_start_order_will_do(self):
        job = self.job_file(join=harness.patient(60))
        address = harness.free_address()
        server = [harness.program("capstan-server"), job, "--set", f"cluster.coordinator={address}"]
        with harness.Process(harness.program("capstan-worker"), "--coordinator", address, "--name", "b") as second, \
                harness.Process(*server, "--index", "1", "--run-dir", self.path("run")) as late_server, \
                harness.Process(harness.program("capstan-worker"), "--coordinator", address) as first, \
                harness.Process(*server, "--index", "0") as early_server:
            for process in (second, late_server, first, early_server):
                process.wait_for_line("metrics at http://")
            with harness.Process(*server, "--coordinator", "--run-dir", self.path("run")) as coordinator:
                self.assertEqual(coordinator.wait(), 0, coordinator.output)
            for process in (second, late_server, first, early_server):
                self.assertEqual(process.wait(), 0, process.output)
        self.assertEqual(len(self.metrics()), 10)
        self.weights()
        self.assertEqual(self.endpoints()["coordinator"], address)
        self.assertEqual(len(self.endpoints()["shards"]), 2)
        self.assertEqual(set(self.pids()), {"coordinator", "server-1"})

    def test_a_worker_may_come_to_a_running_job(self):
        job = self.job_file(steps=1000000, join=harness.patient(60))
        with self.launch(job) as launch:
            launch.wait_for_line("running: ")
            with harness.Process(harness.program("capstan-worker"), "--coordinator", self.endpoints()["coordinator"],
                                 "--name", "late") as late:
                launch.wait_for_line('"late" joined (3 workers, 1 more than cluster.workers = 2)')
                harness.kill(late.pid, harness.signal.SIGTERM)
                late.wait()
                launch.wait_for_line('"late" left')

    def test_print_config_fills_in_the_defaults(self):
        with harness.Process(harness.program("capstan-server"), self.job_file(), "--print-config") as server:
            self.assertEqual(server.wait(), 0)
            self.assertIn("eps = ", server.output)
            self.assertFalse(os.path.exists(self.path("run")))


if __name__ == "__main__":
    harness.main()
