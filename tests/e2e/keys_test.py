#!/usr/bin/python3
"""Jobs whose connections are encrypted: the same bits, nobody gets in without a key, and no secret is anywhere but in its file."""
import concurrent.futures
import contextlib
import glob
import json
import os
import re
import resource
import stat
import subprocess
import time

import harness
import recovery
import tier
import zmtp_attacker

CURVE = ("--set", "security.transport=\"curve\"")
ROLES = ("coordinator", "server", "worker", "reader", "admin")
STRANGERS, FLOOD_BYTES, GROWTH_MIB = 32, 64 << 20, 64  # growth: at most
FLOOD_SECONDS = 4 if os.environ.get("CAPSTAN_TEST_TIER") == "all" else 2
REFUSED_WITHIN = 10  # seconds for which a process that is not let in waits at most for an answer


def secrets_in(folder):
    """Returns the secret keys in the key files of a folder."""
    found = []
    for path in glob.glob(os.path.join(folder, "*.key")):
        with open(path, encoding="utf-8") as file:
            found += re.findall(r'secret_key = "(\w{64})"', file.read())
    return found


def resident_mib(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(re.search(r"VmRSS:\s+(\d+) kB", file.read())[1]) / 1024


class KeysTest(recovery.RecoveryTest):
    def keygen(self, name="keys", *more):
        """Makes keys; returns their folder and the coordinator's public key."""
        folder = self.path(name)
        made = subprocess.run([harness.program("capstan"), "keygen", folder, *more], capture_output=True, text=True, check=True,
                              timeout=harness.DEADLINE)
        return folder, re.search(r"HOST:PORT#(\w{64})", made.stdout)[1]

    def change_keys(self, folder, *change):
        subprocess.run([harness.program("capstan"), "keygen", folder, *change], check=True, stdout=subprocess.DEVNULL,
                       timeout=harness.DEADLINE)

    def worker(self, coordinator, key_file, *more):
        words = [harness.program("capstan-worker"), "--coordinator", coordinator, "--name", "late", *more]
        if key_file is not None:
            words += ["--key-file", key_file]
        return harness.Process(*words, cwd=self.folder)

    def assert_refused(self, coordinator, key_file, words):
        """The worker must say why before it gives up by itself."""
        with self.worker(coordinator, key_file, "--join-seconds", str(harness.patient(REFUSED_WITHIN))) as process:
            self.assertNotEqual(process.wait(), 0)
            self.assertRegex(process.output, words)

    def test_a_run_makes_keys_of_its_own_and_ends_with_the_same_bits(self):
        with self.launch(self.job(), *CURVE) as launch:
            self.wait_for_steps(launch, 15)
            folder = self.path("run/keys")
            secrets = secrets_in(folder)
            self.assertEqual(len(secrets), len(ROLES))
            self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
            for name in os.listdir(folder):
                self.assertEqual(stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) & 0o077, 0, name)
            self.assert_told_nowhere(secrets, launch, folder)
            for name in ("worker-0", "server-1", "coordinator"):
                self.kill(launch, name)
                self.wait_for_steps(launch, 10)
            steps = self.assert_stops_with_same_bits(launch)
            self.assert_told_nowhere(secrets, launch, folder)
        self.assertEqual(len(secrets_in(folder)), len(ROLES), "programs that wait for the job to go on need their keys")
        with self.resume("--set", f"job.steps={steps + 10}") as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        self.assertFalse(os.path.exists(folder))

    def kill(self, launch, name):
        os.kill(self.pids()[name], 9)
        launch.wait_for_line(f"{name} was killed")

    def assert_told_nowhere(self, secrets, launch, keys):
        """Greps the run's files, and command lines and environments of its processes."""
        places = {"the output": launch.output}
        for folder, _, names in os.walk(self.path("run")):
            for path in (os.path.join(folder, name) for name in names if folder != keys):
                with contextlib.suppress(OSError), open(path, encoding="latin-1") as file:
                    places[path] = file.read()
        for name, pid in self.pids().items():
            for what in "cmdline", "environ":
                with contextlib.suppress(OSError), open(f"/proc/{pid}/{what}", encoding="latin-1") as file:
                    places[f"{what} of {name}"] = file.read()
        self.assertGreater(len(places), 8)
        for place, text in places.items():
            for secret in secrets:
                self.assertNotIn(secret, text, place)

    def test_only_those_with_an_allowed_key_get_in(self):
        keys, coordinator_key = self.keygen()
        others, _ = self.keygen("others")
        with self.launch(self.job(), *CURVE, "--keys", keys) as launch:
            self.wait_for_steps(launch, 15)
            with self.slow_workers():
                coordinator = self.endpoints()["coordinator"]
                self.assertTrue(coordinator.endswith("#" + coordinator_key), coordinator)
                plain = coordinator.split("#")[0]
                with self.subTest("no key at all"):
                    self.assert_refused(plain, None, "asks for keys: write its address as HOST:PORT#KEY")
                with self.subTest("a key in the address, and none of its own"):
                    self.assert_refused(coordinator, None, "name a key file, as CAPSTAN_KEY_FILE=worker.key")
                with self.subTest("a key that nobody has allowed"):
                    self.assert_refused(coordinator, os.path.join(others, "worker.key"), "does not admit the key of this process")
                with self.subTest("another coordinator's key"):
                    self.assert_refused(plain + "#" + "7" * 64, os.path.join(keys, "worker.key"), "does not have the key 7777")
                with self.subTest("a key of another role"):
                    self.assert_refused(coordinator, os.path.join(keys, "reader.key"), "has its key as that of a reader")
                with self.subTest("a key file that others can read"):
                    os.chmod(os.path.join(others, "reader.key"), 0o644)
                    self.assert_refused(coordinator, os.path.join(others, "reader.key"), "run: chmod 600")
                with self.worker("tcp://" + coordinator, os.path.join(keys, "worker.key")):
                    launch.wait_for_line('"late" joined')
            self.assert_stops_with_same_bits(launch)
        self.assertTrue(os.path.exists(os.path.join(keys, "worker.key")))

    def wait_for_lists(self, launch, keys):
        """Waits until the coordinator and both servers have read an allow list of so many keys."""
        recovery.poll(lambda: launch.output.count(f"was read again: {keys} keys") >= 3, f"a list of {keys} keys")

    def test_who_is_revoked_is_told_and_a_name_belongs_to_its_key(self):
        keys, _ = self.keygen()
        with self.launch(self.job(), *CURVE, "--keys", keys) as launch:
            self.wait_for_steps(launch, 15)
            with self.slow_workers():
                coordinator = self.endpoints()["coordinator"]
                self.change_keys(keys, "--add", "worker", "--name", "mine")
                self.wait_for_lists(launch, 6)
                with self.subTest("another name than the key's"):
                    self.assert_refused(coordinator, os.path.join(keys, "mine.key"), 'as that of a worker named "mine"')
                self.change_keys(keys, "--add", "worker", "--name", "late")
                self.wait_for_lists(launch, 7)
                with self.subTest("a name that belongs to another key"):
                    self.assert_refused(coordinator, os.path.join(keys, "worker.key"), "that name belongs to another key")
                revoked = self.path("mine.key")
                os.rename(os.path.join(keys, "mine.key"), revoked)
                self.change_keys(keys, "--revoke", "mine")
                self.change_keys(keys, "--revoke", "late")
                self.wait_for_lists(launch, 5)
                with self.subTest("revoked"):
                    self.assert_refused(coordinator, revoked, "does not admit the key of this process")
                launch.wait_for_line("was not let in: its key")
            self.assert_stops_with_same_bits(launch)
        self.assertTrue(any("was not let in: its key" in line.get("text", "") for line in self.audit("refused")))

    def test_a_coordinators_key_is_renewed_while_the_job_runs(self):
        """Servers and workers know both keys; the coordinator is killed, and comes back with the second one."""
        keys, first = self.keygen()
        self.change_keys(keys, "--add", "coordinator", "--name", "next")
        with open(os.path.join(keys, "next.key"), encoding="utf-8") as file:
            second = re.search(r'public_key = "(\w{64})"', file.read())[1]
        address = f"{harness.free_address()}#{first},{second}"
        job = [self.job(), *recovery.options([f"cluster.coordinator={address}", "cluster.workers=1"]),
               "--run-dir", self.path("run")]

        def server(key, *more):
            return harness.Process(harness.program("capstan-server"), *job, *more, "--key-file", os.path.join(keys, key),
                                   cwd=self.folder)

        with contextlib.ExitStack() as stack:
            others = [stack.enter_context(server("server.key", "--index", str(index))) for index in range(2)]
            others.append(stack.enter_context(self.worker("tcp://" + address, os.path.join(keys, "worker.key"))))
            with server("coordinator.key", "--coordinator") as coordinator:
                self.wait_for_steps(coordinator, 15)
                harness.kill(coordinator.pid)
            with server("next.key", "--coordinator") as coordinator:
                self.wait_for_steps(coordinator, 15)
                self.assertTrue(self.endpoints()["coordinator"].endswith("#" + second))
                self.change_keys(keys, "--revoke", "coordinator")
                coordinator.wait_for_line("was read again: 5 keys")
                self.wait_for_steps(coordinator, 15)
                self.assert_stops_with_same_bits(coordinator)
            for process in others[:2]:
                self.assertEqual(process.wait(), 0, process.output)

    def audit(self, what):
        with open(self.path("run/audit.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return [line for line in lines if line["what"] == what]

    def test_a_servers_key_is_for_its_shards_only(self):
        keys, _ = self.keygen("keys", "--servers", "2", "--workers", "3")
        with self.launch(self.job(), *CURVE, "--keys", keys) as launch:
            self.wait_for_steps(launch, 15)
            coordinator = self.endpoints()["coordinator"]
            with harness.Process(harness.program("capstan-server"), "--join", coordinator, "--index", "0", "--run-dir",
                                 self.path("other"), "--key-file", os.path.join(keys, "server-1.key"),
                                 cwd=self.folder) as server:
                self.assertNotEqual(server.wait(), 0)
                self.assertRegex(server.output, 'that of a server named "1", which may not do this: it speaks for shard 0')
            launch.wait_for_line('refused: server "1" speaks for shard 0')
            with self.subTest("a worker's key is for its name"):
                self.assert_refused(coordinator, os.path.join(keys, "worker-0.key"), 'it joins as "late"')
            self.assert_stops_with_same_bits(launch)
        refused = {line["text"]: line["who"] for line in self.audit("refused")}
        self.assertEqual(refused.get('refused: server "1" speaks for shard 0'), 'server "1"')
        self.assertEqual(refused.get('refused: worker "worker-0" joins as "late"'), 'worker "worker-0"')
        self.assertEqual({line["who"] for line in self.audit("joined")},
                         {f'server "{index}"' for index in range(2)} | {f'worker "worker-{index}"' for index in range(3)})

    def test_processes_with_keys_write_no_core_files(self):
        """A program of the user's has the limit from the same function, ReadKeys (key_file_test)."""
        before = resource.getrlimit(resource.RLIMIT_CORE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_CORE, before)
        resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
        with self.launch(self.job(), *CURVE) as launch:
            self.wait_for_steps(launch, 5)
            limits = {}
            for name, pid in self.pids().items():
                with open(f"/proc/{pid}/limits", encoding="utf-8") as file:
                    limits[name] = file.read()
            self.assertLessEqual({"coordinator", "server-0", "worker-0"}, set(limits))
            for name, text in limits.items():
                self.assertRegex(text, r"Max core file size\s+0\s", name)
            self.assert_stops_with_same_bits(launch)

    def test_strangers_cost_little_memory(self):
        """32 connections to each process send frames and commands without end, 64 MiB in all to each."""
        with self.launch(self.job(), *CURVE) as launch:
            self.wait_for_steps(launch, 15)
            known, pids = self.endpoints(), self.pids()
            for name, address in {"coordinator": known["coordinator"], "server-0": known["shards"][0]}.items():
                before = resident_mib(pids[name])
                made = zmtp_attacker.flood(address.split("#")[0], STRANGERS, FLOOD_BYTES)
                growth = resident_mib(pids[name]) - before
                recovery.say(f"{name} grew by {growth:.0f} MiB for {STRANGERS} strangers, who connected {made} times")
                self.assertLess(growth, GROWTH_MIB)
            self.assert_stops_with_same_bits(launch)

    def test_a_flood_beside_training(self):
        """Connections send up to 10 MB a second in all to coordinator and server. Says what share of the steps is still done;
        on a machine of few cores the flood's own work takes some."""
        with self.launch(self.job(), *CURVE) as launch:
            self.wait_for_steps(launch, 15)
            known = self.endpoints()
            addresses = [address.split("#")[0] for address in (known["coordinator"], known["shards"][0])]
            for connections, rate in tier.some("floods", ((8, 2_000_000), (24, 10_000_000)), 1):
                calm = self.steps_done_while(lambda: time.sleep(FLOOD_SECONDS))
                with concurrent.futures.ThreadPoolExecutor() as pool:
                    flooded = self.steps_done_while(lambda: list(pool.map(
                        lambda address: zmtp_attacker.flood(address, connections // 2, rate * FLOOD_SECONDS // 2, rate / 2), addresses)))
                self.assertGreater(flooded, 0)
                recovery.say(f"{flooded / calm:.2f} of the undisturbed steps beside {rate // 1_000_000} MB/s of {connections} strangers")
            self.assert_stops_with_same_bits(launch)

    def steps_done_while(self, act):
        """Returns how many steps a second are done meanwhile."""
        before, begun = recovery.count_records(self.path("run")), time.monotonic()
        act()
        return (recovery.count_records(self.path("run")) - before) / (time.monotonic() - begun)

    def test_a_process_listens_only_under_its_own_key(self):
        keys, _ = self.keygen()
        address = harness.free_address() + "#" + "7" * 64
        with self.launch(self.job(), *CURVE, "--keys", keys, "--set", f'cluster.coordinator="{address}"') as launch:
            self.assertNotEqual(launch.wait(), 0)
            self.assertRegex(launch.output, "that address has the key 7777.*the key file of this process has")


if __name__ == "__main__":
    harness.main()
