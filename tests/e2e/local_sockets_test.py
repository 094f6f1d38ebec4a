#!/usr/bin/python3
"""A job on one machine without addresses: its processes have Unix sockets that only its user can reach, and no TCP port but
those of the metrics, on the loopback address. The sockets outlive kills of their processes, and end with the job.
"""
import os
import signal
import socket
import stat
import subprocess
import tempfile

import harness
import recovery
import skips

NOBODY = 65534
LISTENING = "0A"  # in /proc/net/tcp
SOCKET_PATH_MAX = 107


def folder_of(address):
    assert address.startswith("ipc:///"), address
    return os.path.dirname(address.removeprefix("ipc://"))


def tcp_listeners(pids):
    """Returns the TCP addresses at which these processes listen, as HOST:PORT in numbers; of IPv6, the text of the kernel."""
    sockets = set()
    for pid in pids:
        for fd in os.scandir(f"/proc/{pid:d}/fd"):
            try:
                target = os.readlink(fd.path)
            except FileNotFoundError:  # closed meanwhile
                continue
            if target.startswith("socket:["):
                sockets.add(target[8:-1])
    addresses = set()
    for table in ("tcp", "tcp6"):
        with open(f"/proc/net/{table}", encoding="ascii") as file:
            for fields in map(str.split, file.readlines()[1:]):
                if fields[3] != LISTENING or fields[9] not in sockets:
                    continue
                host, port = fields[1].split(":")
                if table == "tcp":
                    host = socket.inet_ntoa(bytes.fromhex(host)[::-1])
                addresses.add(f"{host}:{int(port, 16)}")
    return addresses


class LocalSocketsTest(harness.JobTest):
    def worker(self, *arguments, **settings):
        words = [f"{name}={value}" for name, value in settings.items()]
        return harness.Process("/usr/bin/env", *words, harness.program("capstan-worker"), *arguments, cwd=self.folder)

    def wait_for_steps(self, count, run="run"):
        begun = recovery.count_records(self.path(run))
        harness.poll(lambda: recovery.count_records(self.path(run)) >= begun + count, f"{count} more steps")

    def stop(self, launch):
        harness.kill(launch.pid, signal.SIGINT)
        self.assertEqual(launch.wait(), 128 + signal.SIGINT, launch.output)

    def test_no_process_listens_but_for_its_metrics_on_this_machine(self):
        with self.launch(self.job_file(steps=harness.ENDLESS)) as launch:
            launch.wait_for_line("running: ")
            endpoints = self.endpoints()
            folder = folder_of(endpoints["coordinator"])
            self.assertEqual(folder, os.path.realpath(self.path("run", "sockets")))
            self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
            self.assertEqual(sorted(os.listdir(folder)), ["coordinator", "shard-0", "shard-0.m", "shard-1", "shard-1.m"])
            self.assertEqual({folder_of(shard) for shard in endpoints["shards"]}, {folder})
            listeners = tcp_listeners([*self.pids().values(), launch.pid])
            self.assertEqual(listeners, set(endpoints["metrics"].values()))
            self.assertEqual({address.split(".")[0] for address in listeners}, {"127"})
            self.stop(launch)
        self.assertFalse(os.path.exists(folder))

    def test_all_reduce_needs_no_other_port_than_gloos_on_this_machine(self):
        with self.launch(self.job_file(steps=harness.ENDLESS), "--set", "job.mode=allreduce") as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(3)
            self.assertEqual({address.split(".")[0] for address in tcp_listeners(self.pids().values())}, {"127"})
            self.stop(launch)

    def test_another_user_is_kept_out(self):
        if os.geteuid() != 0:
            skips.skip(self, "only the superuser can start a process of another user")
        with self.launch(self.job_file(steps=harness.ENDLESS)) as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(1)  # all are connected: nobody connects in a folder that others can enter
            address = self.endpoints()["coordinator"]
            folder = folder_of(address)

            def try_as_nobody():
                """Runs a worker of another user's; returns what it says."""
                done = subprocess.run([harness.program("capstan-worker"), "--coordinator", address, "--name", "stranger"],
                                      user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", capture_output=True, text=True,
                                      timeout=harness.DEADLINE)
                self.assertEqual(done.returncode, 1, done.stderr)
                return done.stderr

            self.assertIn("Permission denied", try_as_nobody())
            os.chmod(self.folder, 0o755)
            os.chmod(self.path("run"), 0o755)
            os.chmod(folder, 0o755)  # by mistake, say
            self.assertIn("is another user's (uid 0, and this process has uid 65534)", try_as_nobody())
            # A program that does not check the folder is still refused by the kernel's word on whose it is.
            knock = ("import socket, sys; s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect(sys.argv[1]); "
                     "print(bool(s.recv(64)))")
            os.chmod(os.path.join(folder, "coordinator"), 0o777)
            for user, greeted in ((NOBODY, "False"), (0, "True")):
                with self.subTest(user):
                    said = subprocess.run(["/usr/bin/python3", "-c", knock, address.removeprefix("ipc://")], user=user,
                                          extra_groups=[], capture_output=True, text=True, timeout=harness.DEADLINE, check=True)
                    self.assertEqual(said.stdout.strip(), greeted)
            self.wait_for_steps(3)
            self.assertNotIn("stranger", launch.output)
            os.chmod(folder, 0o700)
            self.stop(launch)

    def test_killed_processes_come_back_at_their_paths(self):
        with self.launch(self.job_file(steps=harness.ENDLESS)) as launch:
            launch.wait_for_line("running: ")
            endpoints = self.endpoints()
            for victim in ("coordinator", "server-1", "worker-0", "server-0", "coordinator"):
                self.wait_for_steps(3)
                harness.kill(self.pids()[victim])
            self.wait_for_steps(3)
            again = self.endpoints()
            self.assertEqual(again["coordinator"], endpoints["coordinator"])
            self.assertEqual(sorted(again["shards"]), sorted(endpoints["shards"]))
            self.stop(launch)
        self.assertFalse(os.path.exists(folder_of(endpoints["coordinator"])))

    def test_sockets_of_a_launcher_that_was_killed_are_replaced(self):
        with self.launch(self.job_file(steps=harness.ENDLESS), "--set", "snapshot.every_steps=5") as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(10)
            endpoints, pids = self.endpoints(), self.pids()
            harness.kill(launch.pid)
            launch.wait()
            harness.poll(lambda: all(map(harness.ended, pids.values())), "the end of all processes")
        folder = folder_of(endpoints["coordinator"])
        self.assertEqual(sorted(os.listdir(folder)), ["coordinator", "shard-0", "shard-0.m", "shard-1", "shard-1.m"])
        with harness.Process(harness.program("capstan"), "launch", "--resume", "--run-dir", self.path("run")) as resumed:
            resumed.wait_for_line("running: ")
            self.assertEqual(self.endpoints()["coordinator"], endpoints["coordinator"])
            self.wait_for_steps(3)
            self.stop(resumed)
        self.assertFalse(os.path.exists(folder))

    def test_a_worker_of_ones_own_finds_the_job_by_the_environment(self):
        with self.launch(self.job_file(steps=harness.ENDLESS)) as launch:
            launch.wait_for_line("running: ")
            with self.worker("--name", "late", CAPSTAN_COORDINATOR=self.endpoints()["coordinator"]) as late:
                launch.wait_for_line('"late" joined')
                harness.kill(late.pid, signal.SIGTERM)
                late.wait()
            with self.worker("--name", "none", CAPSTAN_COORDINATOR="") as none:
                self.assertEqual(none.wait(), 2)
                self.assertIn("--coordinator ADDRESS, or CAPSTAN_COORDINATOR", none.output)
            self.stop(launch)

    def test_a_run_directory_with_a_long_path_does(self):
        run = os.path.join("r" * 100, "s" * 100)
        with tempfile.TemporaryDirectory(prefix="capstan-t-") as temporary:
            words = ["/usr/bin/env", f"TMPDIR={temporary}", harness.program("capstan"), "launch", self.job_file(steps=10),
                     "--set", "job.steps=1000000", "--run-dir", self.path(run)]
            with harness.Process(*words, cwd=self.folder) as launch:
                launch.wait_for_line("running: ")
                address = self.endpoints(run)["coordinator"]
                self.assertEqual(os.path.dirname(folder_of(address)),
                                 os.path.join(os.path.realpath(temporary), f"capstan-{os.geteuid()}"))
                self.assertLessEqual(len(address.removeprefix("ipc://")), SOCKET_PATH_MAX)
                self.wait_for_steps(3, run)
                self.stop(launch)
            self.assertFalse(os.path.exists(folder_of(address)))

    def test_a_second_server_does_not_take_the_path_of_the_first(self):
        with self.launch(self.job_file(steps=harness.ENDLESS)) as launch:
            launch.wait_for_line("running: ")
            address = self.endpoints()["coordinator"]
            with harness.Process(harness.program("capstan-server"), "--join", address, "--index", "0", "--run-dir",
                                 self.path("other"), cwd=self.folder) as second:
                self.assertEqual(second.wait(), 1, second.output)
                self.assertIn(f"cannot listen on ipc://{folder_of(address)}/shard-0: address already in use", second.output)
            self.wait_for_steps(3)
            self.stop(launch)


if __name__ == "__main__":
    skips.main()
