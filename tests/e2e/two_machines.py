"""Two machines for programs of the user's own: a job with keys on the first one, the programs on the second.

A machine is a network namespace with a folder of its own to work in.
"""
import contextlib
import os
import re
import shutil
import subprocess
import sys

import harness
import skips

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
import link_network

HEAD, OTHER = "head", "other"
PORT = 29600


def need(test):
    if lacking := link_network.missing():
        skips.skip(test, lacking)


class TwoMachines(contextlib.ExitStack):
    """Made in `folder`, with the machines' folders in it."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        os.makedirs(self.path(HEAD))
        os.makedirs(self.path(OTHER, "keys"))
        made = subprocess.run([harness.program("capstan"), "keygen", self.path(HEAD, "keys")], capture_output=True, text=True,
                              check=True, timeout=harness.DEADLINE)
        shutil.copy2(self.path(HEAD, "keys", "worker.key"), self.path(OTHER, "keys", "worker.key"))
        self.network = self.enter_context(link_network.Network((HEAD, OTHER)))
        self.address = f"{self.network.address(HEAD)}:{PORT}" + re.search(r"HOST:PORT(#\w{64})", made.stdout)[1]

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def start(self, machine, *command, **settings):
        """Starts a program. `settings`: variables of its environment."""
        words = [f"{name}={value}" for name, value in settings.items()]
        command = self.network.command(machine, "/usr/bin/env", *words, *command)
        return self.enter_context(harness.Process(*command, cwd=self.path(machine)))

    def job(self, job, *settings):
        """Starts a job's coordinator, which writes the run directory head/run, and its one server. Returns both."""
        server = harness.program("capstan-server")
        words = [word for setting in (*settings, f"cluster.coordinator={self.address}") for word in ("--set", setting)]
        return [self.start(HEAD, server, job, "--coordinator", "--run-dir", "run", *words, "--key-file", "keys/coordinator.key"),
                self.start(HEAD, server, "--join", self.address, "--index", "0", "--key-file", "keys/server.key")]

    def program(self, name, *command, key_file="keys/worker.key", **settings):
        """Starts a program of the user's on the other machine, with what it needs to know in its environment."""
        settings.update(CAPSTAN_COORDINATOR="tcp://" + self.address, CAPSTAN_WORKER=name)
        if key_file:
            settings["CAPSTAN_KEY_FILE"] = key_file
        return self.start(OTHER, *command, **settings)
