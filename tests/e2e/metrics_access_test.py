"""Who may read the metrics of a job: `capstan status` and others with the token, over https, and nobody else."""
import glob
import os
import shutil
import ssl
import sys
import urllib.error
import urllib.request

import harness
import metrics_access

PROCESSES = {"coordinator", "server-0", "server-1", "worker-0", "worker-1"}


def read(url, token=None, context=None):
    """Returns the status and the text of a page."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=harness.DEADLINE, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class MetricsAccessTest(harness.JobTest):
    def run_job(self, *settings):
        arguments = [word for setting in settings for word in ("--set", setting)]
        launch = self.enterContext(self.launch(self.job_file(steps=harness.ENDLESS), *arguments))
        launch.wait_for_line("running: ")
        self.enterContext(self.slow_workers())
        self.assertEqual(set(self.endpoints()["metrics"]), PROCESSES)
        return launch

    def stop(self, launch):
        harness.kill(launch.pid, harness.signal.SIGINT)
        self.assertEqual(launch.wait(), 130, launch.output)

    def status(self, code=0):
        with harness.Process(harness.program("capstan"), "status", "run", cwd=self.folder) as status:
            self.assertEqual(status.wait(), code, status.output)
            return status.output

    def assert_kept(self, token, launch):
        """The token is in no command line, no environment, no output, and no file but its own."""
        for pid in [launch.pid, *self.pids().values()]:
            for name in ("cmdline", "environ"):
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    self.assertNotIn(token.encode(), file.read(), f"{name} of {pid}")
        self.assertNotIn(token, launch.output)
        for path in glob.glob(self.path("run", "**"), recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    self.assertNotIn(token.encode(), file.read(), path)

    def test_a_token_opens_every_page_of_every_process_and_is_nowhere_to_be_read(self):
        file = metrics_access.write_token(self.path("token"))
        with open(file, encoding="ascii") as opened:
            token = opened.read().strip()
        launch = self.run_job("metrics.token_file=token")  # relative to the folder in which launch is started
        for name, address in self.endpoints()["metrics"].items():
            with self.subTest(name):
                code, text = read(f"http://{address}/metrics")
                self.assertEqual((code, "Bearer TOKEN" in text), (401, True), text)
                self.assertEqual(read(f"http://{address}/metrics", token[:-1] + "x")[0], 401)
                self.assertEqual(read(f"http://{address}/healthz"), (200, "ok\n"))
                code, text = read(f"http://{address}/metrics", token)
                self.assertEqual((code, "capstan_build_info" in text), (200, True), text)
        said = self.status()
        self.assertIn(", workers: 2, ", said)
        self.assertIn("; http://127.0.0.1:", said)
        self.assert_kept(token, launch)
        os.chmod(file, 0o644)
        self.assertIn("can be used by others than its owner; run: chmod 600", self.status(code=1))
        metrics_access.write_token(file)
        self.assertIn("; http://", self.status())
        self.assertEqual(read(f"http://{self.endpoints()['metrics']['worker-1']}/metrics", token)[0], 401)
        self.stop(launch)

    def test_https_has_the_certificate_of_the_files_also_after_they_are_replaced(self):
        certificate, key = metrics_access.make_certificate(self.path("here"))
        other, other_key = metrics_access.make_certificate(self.path("other"))
        launch = self.run_job("metrics.certificate=here.crt", "metrics.key=here.key")
        addresses = self.endpoints()["metrics"]
        trusted = ssl.create_default_context(cafile=certificate)
        for name, address in addresses.items():
            with self.subTest(name):
                self.assertIn("capstan_build_info", read(f"https://{address}/metrics", context=trusted)[1])
                with self.assertRaises((urllib.error.URLError, OSError)):
                    read(f"http://{address}/metrics")
        self.assertEqual({process["metrics"] for process in self.endpoints()["processes"]},
                         {f"https://{address}/metrics" for address in addresses.values()})
        self.assertIn(f"; https://{addresses['coordinator']}/", self.status())
        shutil.copy(certificate, self.path("former.crt"))
        os.rename(other_key, key)
        os.rename(other, certificate)
        renewed = ssl.create_default_context(cafile=certificate)

        def is_renewed(address):
            try:
                return read(f"https://{address}/healthz", context=renewed) == (200, "ok\n")
            except urllib.error.URLError:
                return False
        for name, address in addresses.items():
            harness.poll(lambda at=address: is_renewed(at), f"the new certificate of {name}")
        self.assertIn("; https://", self.status())
        os.rename(self.path("former.crt"), certificate)
        self.assertIn("its certificate is not the one in", self.status(code=1))
        self.stop(launch)

    def test_an_address_that_others_reach_is_not_served_without_protection(self):
        with self.launch(self.job_file(), "--set", "metrics.listen=0.0.0.0:0") as launch:
            self.assertNotEqual(launch.wait(), 0, launch.output)
            self.assertIn('metrics.listen = "0.0.0.0:', launch.output)
            self.assertIn('token_file = "FILE"', launch.output)
        worker = harness.Process(harness.program("capstan-worker"), "--coordinator", harness.free_address(), "--metrics-listen",
                                 "0.0.0.0:0", cwd=self.folder)
        with worker:
            self.assertNotEqual(worker.wait(), 0, worker.output)
            self.assertIn("--metrics-token-file FILE", worker.output)

    def test_another_name_than_the_job_file_lists_gets_no_page(self):
        launch = self.run_job("metrics.hosts=[\"node-7.example\"]")
        for name, address in self.endpoints()["metrics"].items():
            for host, code in (("node-7.example", 200), ("evil.example", 421), (address, 200)):
                request = urllib.request.Request(f"http://{address}/metrics", headers={"Host": host})
                with self.subTest(name, host=host):
                    try:
                        with urllib.request.urlopen(request, timeout=harness.DEADLINE) as answer:
                            self.assertEqual(answer.status, code)
                    except urllib.error.HTTPError as error:
                        self.assertEqual(error.code, code)
        self.stop(launch)


if __name__ == "__main__":
    if not shutil.which("openssl"):
        print("SKIPPED: openssl not found; apt-get install openssl", file=sys.stderr)
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    harness.main()
