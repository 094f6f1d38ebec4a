#!/usr/bin/python3
"""capstan doctor on this machine, and on worse ones: a full disk, few descriptors, a clock that is wrong, no network, and a
coordinator that is there, is not, or refuses the key."""
import json
import os
import re
import shutil
import subprocess

import harness
import skips
import two_machines

OFFLINE = "unshare", "--user", "--map-root-user", "--net"


class Examination(harness.JobTest):
    def doctor(self, *arguments, before=(), code=0):
        """Runs the command, behind the words `before`. Returns its findings by check."""
        ran = subprocess.run([*before, harness.program("capstan"), "doctor", "-o", "json", "--run-dir", self.path("run"),
                              *arguments], cwd=self.folder, capture_output=True, text=True, timeout=harness.DEADLINE, check=False)
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        answer = json.loads(ran.stdout)
        self.assertEqual(answer["errors"], sum(finding["level"] == "error" for finding in answer["findings"]))
        self.assertEqual(code, 1 if answer["errors"] else 0)
        findings = {finding["check"]: finding for finding in answer["findings"]}
        for finding in answer["findings"]:
            self.assertEqual(bool(finding["advice"]), finding["level"] != "ok", finding)
        return findings

    def assert_finding(self, findings, check, level, *parts):
        finding = findings[check]
        self.assertEqual(finding["level"], level, finding)
        for part in parts:
            self.assertIn(part, finding["text"] + finding["advice"])


class DoctorTest(Examination):
    def test_this_machine_can_run_a_job(self):
        findings = self.doctor(self.job_file())
        self.assertLessEqual({"build", "processor", "memory", "open files", "processes", "core files", "clock", "ports", "address",
                              "terminal", "python", "job file", "job memory", "job threads", "job addresses", "gpu", "disk"},
                             set(findings))
        self.assert_finding(findings, "job memory", "ok", "2 servers: ", "2 workers: ")
        self.assertEqual(os.listdir(self.folder), ["job.toml"], "the measurement has left something behind")

    def test_people_get_sentences_and_a_count(self):
        ran = subprocess.run([harness.program("capstan"), "doctor"], cwd=self.folder, capture_output=True, text=True,
                             timeout=harness.DEADLINE, check=True)
        self.assertRegex(ran.stdout, r"(?m)^ok +build: capstan ")
        self.assertRegex(ran.stdout, r"\n0 errors, \d+ warnings?\n$")
        self.assertEqual(ran.stderr, "")

    def test_a_job_that_cannot_run_here_fails(self):
        job = self.job_file()
        self.assert_finding(self.doctor(job, "--set", "model.hidden=[120000,120000]", code=1), "job memory", "error", "GiB")
        self.assert_finding(self.doctor(job, "--set", "job.slots=x", code=1), "job file", "error", "job.slots")
        table = self.job_file(data='kind = "csv"\npath = "no.csv"')
        self.assert_finding(self.doctor(table, code=1), "job data", "error", self.path("no.csv"))

    def test_a_full_disk_fails(self):
        if os.geteuid() != 0:
            skips.skip(self, "a small disk of its own needs root")
        os.mkdir(self.path("run"))
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "capstan-e2e", self.path("run")], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.path("run")], check=False)
        self.assert_finding(self.doctor(), "disk", "warning", "tmpfs", "24 MiB free")
        with open(self.path("run", "ballast"), "wb") as file:
            file.write(bytes(20 << 20))
        self.assert_finding(self.doctor(code=1), "disk", "error", "4.0 MiB free", "make room")
        with open(self.path("run", "ballast"), "ab", buffering=0) as file:
            while self.has_written(file):
                pass
        self.assert_finding(self.doctor(code=1), "disk", "error", "No space left on device")

    def has_written(self, file):
        try:
            return file.write(bytes(4096)) > 0
        except OSError:
            return False

    def test_few_descriptors_fail_and_the_soft_limit_does_not(self):
        few = lambda flag, count: ("/bin/sh", "-c", f'ulimit {flag} {count}; exec "$@"', "sh")
        self.assert_finding(self.doctor(before=few("-Sn", 40)), "open files", "ok", "may have 40 files")
        self.assert_finding(self.doctor(before=few("-n", 40), code=1), "open files", "error", "LimitNOFILE=")

    def test_a_clock_from_the_past_fails(self):
        if not shutil.which("faketime"):
            skips.skip(self, "faketime is not there; scripts/install-deps --test installs it")
        findings = self.doctor(before=("faketime", "2001-02-03 04:05:06"), code=1)
        self.assert_finding(findings, "clock", "error", "2001-02-03", "before this program's commit")

    def test_a_machine_without_a_network_has_no_address_and_fails_without_loopback(self):
        if subprocess.run([*OFFLINE, "true"], capture_output=True, check=False).returncode != 0:
            skips.skip(self, "this machine allows no network namespaces")
        up = *OFFLINE, "/bin/sh", "-c", 'ip link set lo up; exec "$@"', "sh"
        findings = self.doctor(before=up)
        self.assert_finding(findings, "ports", "ok")
        self.assert_finding(findings, "address", "warning", "no way to other machines")
        self.assert_finding(self.doctor(before=OFFLINE, code=1), "ports", "error", "ip link set lo up")

    def test_an_interpreter_without_capstan_is_a_warning(self):
        self.assert_finding(self.doctor("--python", "/bin/false"), "python", "warning", "/bin/false")


class CoordinatorTest(Examination):
    def test_a_coordinator_is_reached_and_its_clock_compared(self):
        address = harness.free_address()
        job = self.job_file(steps=harness.ENDLESS)
        with self.launch(job, "--set", f"cluster.coordinator={address}") as launch:
            launch.wait_for_line("running")
            findings = self.doctor("--coordinator", address)
            self.assert_finding(findings, "coordinator", "ok", 'job "small"', address, "no key is needed")
            self.assert_finding(findings, "clock skew", "ok", "the coordinator's clock is ")
            took, apart = (float(re.search(pattern, findings[check]["text"])[1])
                           for check, pattern in (("coordinator", r"answers in ([\d.]+) ms"), ("clock skew", r"is ([\d.]+) s ")))
            self.assertLessEqual(apart, took / 1e3 / 2 + 0.05)
            self.assert_finding(self.doctor(job, "--set", f"cluster.coordinator={address}", code=1), "job addresses", "error",
                                address, "another process has it")
            if shutil.which("faketime"):
                findings = self.doctor("--coordinator", address, before=("faketime", "-f", "+1h"))
                self.assert_finding(findings, "clock skew", "warning", "s behind")
                behind = float(re.search(r"is ([\d.]+) s behind", findings["clock skew"]["text"])[1])
                self.assertAlmostEqual(behind, 3600, delta=60)
            local = self.endpoints()["coordinator"]
            self.assert_finding(self.doctor("--coordinator", local), "coordinator", "ok")
        self.assert_finding(self.doctor("--coordinator", address, code=1), "coordinator", "error", "Connection refused")
        self.assert_finding(self.doctor("--coordinator", "ipc://" + self.path("nobody"), code=1), "coordinator", "error",
                            "perhaps no job runs there")

    def test_something_else_that_listens_is_no_coordinator(self):
        with harness.socket.create_server(("127.0.0.1", 0)) as other:
            address = "127.0.0.1:" + str(other.getsockname()[1])
            self.assert_finding(self.doctor("--coordinator", address, code=1), "coordinator", "error", "is no coordinator")

    def test_a_key_that_is_allowed_is_let_in_and_another_one_is_not(self):
        two_machines.need(self)
        os.mkdir(self.path("machines"))
        with two_machines.TwoMachines(self.path("machines")) as machines:
            machines.job(self.job_file(steps=harness.ENDLESS))
            other = harness.program("capstan")
            subprocess.run([other, "keygen", self.path("foreign")], check=True, capture_output=True)
            enter = machines.network.command(two_machines.OTHER)

            def ask(key, code):
                return self.doctor("--coordinator", machines.address, "--key-file", key, before=enter, code=code)
            key = machines.path(two_machines.OTHER, "keys", "worker.key")
            harness.poll(lambda: os.path.exists(machines.path(two_machines.HEAD, "run", "endpoints.json")), "a coordinator")
            findings = ask(key, 0)
            self.assert_finding(findings, "coordinator", "ok", 'role = "worker"')
            self.assert_finding(findings, "clock skew", "ok")
            self.assert_finding(ask(self.path("foreign", "worker.key"), 1), "coordinator", "error", "key")


if __name__ == "__main__":
    skips.main()
