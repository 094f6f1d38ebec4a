#!/usr/bin/python3
"""A job on three machines, by the commands of docs/how-to/cluster.md: a coordinator and its workers on one, a server on each
of two others. Every process is killed and restarted by the command that started it, and the weights equal those of an undisturbed job.

A machine is a network namespace with a folder of its own to work in; the machine's own network is not changed. It needs
root.
"""
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys

import harness
import metrics_access
import recovery

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
import link_network

MACHINES = ("head", "one", "two")
PORT = 29600
STEPS = 500
FETCH = """import sys, urllib.request
request = urllib.request.Request(sys.argv[1], headers={"Authorization": "Bearer " + sys.argv[2]})
sys.stdout.write(urllib.request.urlopen(request, timeout=60).read().decode())"""
TOKEN = "machines-0123456789abcdef"


class MachinesTest(recovery.RecoveryTest):
    UNDISTURBED = [*recovery.ONE_OF_EACH, f'cluster.coordinator="{harness.HOST}:0"']

    @classmethod
    def text(cls, steps):
        """Returns a job file as in docs/how-to/cluster.md: with the coordinator's address, and no address of another process."""
        text = re.sub(r'\[cluster\]\n.*?\n\n\[metrics\]\n.*?\n\n', f'[cluster]\ncoordinator = "{cls.address}"\nservers = 2\n'
                      "workers = 2\n\n", super().text(steps), flags=re.S)
        assert "listen" not in text, text
        return text

    def setUp(self):
        super().setUp()
        self.network = self.enterContext(link_network.Network(MACHINES))
        for machine in MACHINES:
            os.mkdir(self.path(machine))
            metrics_access.write_secret(self.path(machine, "token"), TOKEN)

    address = "10.214.0.1:29600"

    def start(self, machine, program, *arguments):
        command = self.network.command(machine, harness.program(program), *arguments)
        return self.enterContext(harness.Process(*command, cwd=self.path(machine)))

    def keygen(self):
        """Makes keys and takes them to their machines, as that page says. Returns the coordinator's address with its key."""
        made = subprocess.run([harness.program("capstan"), "keygen", self.path("head", "keys")], capture_output=True, text=True,
                              check=True, timeout=harness.DEADLINE)
        for machine in "one", "two":
            os.mkdir(self.path(machine, "keys"))
            for name in "server.key", "allow.toml":
                shutil.copy2(self.path("head", "keys", name), self.path(machine, "keys", name))
        return self.address + re.search(r"HOST:PORT(#\w{64})", made.stdout)[1]

    def commands_with_keys(self):
        """Returns what `commands` returns, for a job whose connections are encrypted."""
        address = self.keygen()
        roles = {"coordinator": "coordinator", "server-0": "server", "server-1": "server", "a": "worker", "b": "worker"}
        commands = {}
        for name, (machine, *words) in self.commands().items():
            words = [address if word == self.address else word for word in words if word != "--allow-plaintext"]
            commands[name] = (machine, *words, "--key-file", f"keys/{roles[name]}.key")
        commands["coordinator"] += ("--set", f"cluster.coordinator={address}")
        return commands

    def commands(self, steps=STEPS, guarded=True):
        """Returns (machine, program, arguments...) for each process, by name."""
        self.assertEqual(self.address, f"{self.network.address('head')}:{PORT}")
        text = self.text(steps) + ('\n[metrics]\ntoken_file = "token"\n' if guarded else "")
        job = self.write(os.path.join("head", "digits.toml"), text)
        token = ["--metrics-token-file", "token"] if guarded else []
        allow = "--allow-plaintext"
        return {"coordinator": ("head", "capstan-server", os.path.basename(job), "--coordinator", allow),
                "server-0": ("one", "capstan-server", "--join", self.address, "--index", "0", allow),
                "server-1": ("two", "capstan-server", "--join", self.address, "--index", "1", allow),
                "a": ("head", "capstan-worker", "--coordinator", self.address, "--name", "a", allow, *token),
                "b": ("head", "capstan-worker", "--coordinator", self.address, "--name", "b", allow, *token)}

    def fetch(self, machine, url):
        command = self.network.command(machine, sys.executable, "-c", FETCH, url, TOKEN)
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=harness.DEADLINE).stdout

    def test_every_process_is_killed_and_goes_on_by_the_command_that_started_it(self):
        run = self.path("head", "runs", "recovery-coordinator")
        commands = self.commands_with_keys()
        running = {name: self.start(*command) for name, command in commands.items()}
        running["coordinator"].wait_for_line("running: ")
        self.see_addresses_from("two", run)
        status = json.loads(self.fetch("two", f"http://{self.endpoints(run)['metrics']['coordinator']}/api/v1/status"))
        self.assertEqual(status["transport"], "encrypted: processes in the allow list only")
        said = next(line for line in running["coordinator"].lines if "servers: capstan-server --join" in line)
        self.assertRegex(said, r"--join \S+#\w{64} --key-file server.key --index 0")
        for victim in ("server-0", "coordinator", "b", "server-1", "a"):
            begun = recovery.count_records(run)
            recovery.poll(lambda: recovery.count_records(run) >= begun + 12, f"12 steps before the end of {victim}")
            self.assertTrue(all(process.child.poll() is None for process in running.values()), "the job had ended before")
            harness.kill(running[victim].pid)
            running[victim].wait()
            running[victim] = self.start(*commands[victim])
        for name, process in running.items():
            self.assertEqual(process.wait(), 0, f"{name}:\n{process.output}")
        self.assertEqual(recovery.digest_of(run), self.golden(STEPS))
        self.assert_whole_history(os.path.join("head", "runs", "recovery-coordinator"), STEPS)
        recovery.say(f"sha256 {recovery.digest_of(run)[:16]} on three machines and undisturbed on one")

    def see_addresses_from(self, machine, run):
        """Checks that each process of the job can be found and reached from another machine."""
        metrics = self.endpoints(os.path.relpath(run, self.folder))["metrics"]
        groups = json.loads(self.fetch(machine, f"http://{metrics['coordinator']}/http_sd"))
        self.assertEqual({group["labels"]["name"]: group["targets"] for group in groups},
                         {name: [address] for name, address in metrics.items()})
        self.assertEqual(set(metrics), {"coordinator", "server-0", "server-1", "a", "b"})
        for name, where in (("coordinator", "head"), ("server-0", "one"), ("server-1", "two"), ("a", "head"), ("b", "head")):
            self.assertEqual(metrics[name].rsplit(":", 1)[0], self.network.address(where), name)
            self.assertIn("capstan_build_info", self.fetch(machine, f"http://{metrics[name]}/metrics"))

    def test_nothing_is_plaintext_between_machines_unless_everyone_who_starts_a_process_says_so(self):
        refused = {name: self.start(*filter(lambda word: word != "--allow-plaintext", command))
                   for name, command in self.commands().items()}
        for name, process in refused.items():
            self.assertIn(process.wait(), (1, 2), process.output)
            self.assertIn(f"is {self.address}, which other machines reach", process.output, name)
            self.assertIn("add --allow-plaintext", process.output)
        commands = self.commands()
        head = self.start(*commands["coordinator"])
        head.wait_for_line(f"messages to {self.address} are neither encrypted nor checked (--allow-plaintext)")
        said = head.wait_for_line("servers: capstan-server --join")
        self.assertIn(f"--join {self.address} --allow-plaintext --index 0", said)
        self.assertIn(f"capstan-worker --coordinator {self.address} --allow-plaintext", said)
        server = self.start(*commands["server-0"])
        server.wait_for_line(f"messages to {self.network.address('one')}:")
        run = os.path.join("head", "runs", "recovery-coordinator")
        status = json.loads(self.fetch("two", f"http://{self.endpoints(run)['metrics']['coordinator']}/api/v1/status"))
        self.assertEqual(status["transport"], "plaintext: not protected")
        metrics = harness.poll(lambda: self.endpoints(run)["metrics"].get("server-0"), "a server that joined")
        self.assertIn("capstan_network_plaintext 1", self.fetch("two", f"http://{metrics}/metrics"))

    def test_without_a_token_metrics_are_for_the_own_machine_only(self):
        commands = self.commands(harness.ENDLESS, guarded=False)
        running = {name: self.start(*command) for name, command in commands.items()}
        running["coordinator"].wait_for_line("running: ")
        for name, address in self.endpoints(os.path.join("head", "runs", "recovery-coordinator"))["metrics"].items():
            self.assertEqual(address.rsplit(":", 1)[0], "127.0.0.1", name)
            running[name].wait_for_line(f"metrics at http://{address}/ (for this machine only: ")
        address = self.network.address("one")
        refused = self.start("one", *commands["server-0"][1:], "--metrics-listen", f"{address}:9100")
        self.assertEqual(refused.wait(), 1, refused.output)
        self.assertIn(f'metrics.listen = "{address}:9100": every machine that reaches this address', refused.output)

    def test_a_server_that_nobody_elsewhere_could_reach_is_refused_or_named(self):
        commands = self.commands()
        own = self.network.address("one")
        loopback = self.start(*commands["server-0"], "--set", "cluster.listen=127.0.0.1:0")
        head = self.start(*commands["coordinator"])
        self.assertEqual(loopback.wait(), 1, loopback.output)
        self.assertIn("cluster.listen is 127.0.0.1:0, which only this machine reaches", loopback.output)
        self.assertIn(f"leave cluster.listen out, or --set cluster.listen={own}:0", loopback.output)
        nobody = "10.214.0.99"
        self.start(*commands["server-0"], "--set", f"cluster.advertise={nobody}")
        said = head.wait_for_line(f"server 0 says that it is reached at {nobody}:")
        self.assertIn("check cluster.listen and cluster.advertise of that server", said)


if __name__ == "__main__":
    if lacking := link_network.missing():
        print(f"SKIPPED: {lacking}")
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    with contextlib.suppress(RuntimeError):
        link_network.remove_leftovers()
    harness.main()
