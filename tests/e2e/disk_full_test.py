#!/usr/bin/python3
"""A disk that is full: snapshots are given up with a warning that names the place, training goes on, and when there is room
again snapshots are taken again. The disk is a small tmpfs, which takes root."""
import contextlib
import os
import shutil
import subprocess
import sys

import harness
import recovery


class DiskFullTest(recovery.RecoveryTest):
    STEPS, EVERY = 800, 25

    def mount(self, folder, size):
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "capstan-e2e", folder], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=False)
        return folder

    def fill(self, folder):
        with open(os.path.join(folder, "ballast"), "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(64 << 10)) > 0:
                pass
        self.assertLess(shutil.disk_usage(folder).free, 64 << 10)

    def make_room(self, folder):
        os.unlink(os.path.join(folder, "ballast"))

    def run_with_a_shard_on_a_small_disk(self):
        """A stopped run, whose second shard's directory moved."""
        with self.launch(self.job()) as launch:
            launch.wait_for_line("snapshot of version")
            harness.kill(launch.pid)
        folder = self.path("run", "snapshots", "shard-1")
        aside = shutil.move(folder, self.path("aside"))
        self.mount(folder, "8m")
        shutil.copytree(aside, folder, dirs_exist_ok=True)
        return folder

    def test_training_goes_on_and_snapshots_come_back(self):
        folder = self.run_with_a_shard_on_a_small_disk()
        run = self.path("run")
        taken = lambda: launch.output.count("\nsnapshot of version")
        with self.resume() as launch:
            launch.wait_for_line("snapshot of version")
            self.fill(folder)
            warning = launch.wait_for_line("warning: no snapshot of version")
            self.assertIn(folder, warning)
            self.assertRegex(warning, "full|[Nn]o space")
            recovery.say(warning[:300])
            begun, before = recovery.count_records(run), taken()
            self.wait_for_steps(launch, 4 * self.EVERY)
            self.assertEqual(taken(), before, launch.output)
            steps = recovery.count_records(run) - begun
            self.make_room(folder)
            before = taken()
            recovery.poll(lambda: taken() > before + 1 or launch.closed, "a snapshot after there was room again")
            self.assertFalse(launch.closed, launch.output)
            version = max(int(line.split()[3]) for line in launch.lines if line.startswith("snapshot of version"))
            self.wait_for_steps(launch, 5)
            harness.kill(self.pids()["server-1"])
            launch.wait_for_line("generation 3 starts from the snapshot of version ")
            line = launch.wait_for_line("generation 3 starts from the snapshot of version ")
            self.assertGreaterEqual(int(line.split()[-1]), version, "the snapshot taken after there was room is not used")
            self.assert_same_bits(launch)
        recovery.say(f"{steps} steps while the disk was full; then: {line}")

    def test_a_disk_on_which_nothing_can_be_written(self):
        """Metrics, logs and the coordinator's log too. The job may end; nothing that was promised is lost."""
        folder = self.mount(self.path("run"), "40m")
        with self.launch(self.job()) as launch:
            launch.wait_for_line("snapshot of version")
            self.fill(folder)
            recovery.poll(lambda: "warning: " in launch.output or launch.closed, "a word about the disk")
            with contextlib.suppress(AssertionError):
                launch.wait(2)
            said = [line for line in launch.lines if "warning: " in line or line.startswith("capstan: ")]
            self.assertTrue(any(folder in line for line in said), launch.output)
            recovery.say("a full run directory: " + said[0][:250])
            self.make_room(folder)
            if launch.child.poll() is None:
                harness.kill(launch.pid)
                launch.wait()
        with self.resume() as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
        self.assertEqual(recovery.digest_of(folder), self.golden)

    def test_a_start_on_a_full_disk_fails_and_names_it(self):
        folder = self.mount(self.path("run"), "64k")
        self.fill(folder)
        with self.launch(self.job(), "--set", "limits.join=6") as launch:
            self.assertEqual(launch.wait(), 1, launch.output)
        self.assertIn(folder, launch.output)
        recovery.say([line for line in launch.lines if folder in line][0][:300])


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("SKIPPED: mounting a small disk takes root; run it as root")
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    harness.main()
