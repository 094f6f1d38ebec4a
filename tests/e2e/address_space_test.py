"""A worker under `ulimit -v`: if memory or a thread is refused, it ends with a message."""
import harness


class AddressSpaceTest(harness.JobTest):
    def run_worker(self, limit_mib, *job_settings, threads=1):
        """Runs a job whose only worker has this limit of address space. Returns the worker's exit code and output."""
        job, address = self.job_file(steps=3), harness.free_address()
        settings = ["cluster.servers=1", "cluster.workers=1", f"cluster.coordinator={address}", *job_settings]
        settings = [word for setting in settings for word in ("--set", setting)]
        server = [harness.program("capstan-server"), job, *settings]
        limited = ["/bin/sh", "-c", f'ulimit -v {limit_mib * 1024}; exec "$@"', "sh"]
        with harness.Process(*server, "--coordinator", "--run-dir", self.path("run")), \
                harness.Process(*server, "--index", "0", cwd=self.folder), \
                harness.Process(*limited, harness.program("capstan-worker"), "--coordinator", address, "--threads",
                                str(threads)) as worker:
            return worker.wait(), worker.output

    def test_a_thread_that_is_refused_is_an_error_that_names_the_limits(self):
        code, output = self.run_worker(1200, threads=200)
        self.assertEqual(code, 1, output)
        self.assertIn("the system gave this worker no thread", output)
        self.assertIn("(ulimit -v) has the limit 1200 MiB", output)

    def test_memory_that_is_refused_is_an_error_with_the_account(self):
        # Within 760 MiB of address space, the model fits next to the memory in use, about 30 MiB. It does not fit next to
        # the address space that libraries and threads have reserved.
        code, output = self.run_worker(760, "model.hidden=[1000000]", "data.features=32")
        self.assertEqual(code, 1, output)
        self.assertIn("no more memory was given to a model that needs", output)
        self.assertIn("(ulimit -v) is limited to 760 MiB", output)
        self.assertNotIn("gradients alone", output)


if __name__ == "__main__":
    harness.main()
