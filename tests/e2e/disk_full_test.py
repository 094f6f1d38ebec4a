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
    def mount(self, folder, size):
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "capstan-e2e", folder], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=False)
        return folder

    def fill(self, folder):
        """To the last byte. The job may free some later: files of an older snapshot."""
        with open(os.path.join(folder, "ballast"), "ab", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(64 << 10)) > 0:
                pass

    def keep_full_until(self, folder, launch, condition, what):
        def full_and_so():
            self.fill(folder)
            return condition() or launch.closed
        recovery.poll(full_and_so, what)

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
            self.keep_full_until(folder, launch, lambda: "warning: no snapshot of version" in launch.output, "a warning")
            warning = launch.wait_for_line("warning: no snapshot of version")
            self.assertIn(folder, warning)
            self.assertRegex(warning, "full|[Nn]o space")
            recovery.say(warning[:300])
            begun, before = recovery.count_records(run), taken()
            self.keep_full_until(folder, launch, lambda: recovery.count_records(run) >= begun + 4 * self.EVERY,
                                 "steps while the disk is full")
            self.assertEqual(taken(), before, launch.output)
            steps = recovery.count_records(run) - begun
            self.make_room(folder)
            recovery.poll(lambda: taken() > before + 1 or launch.closed, "a snapshot after there was room again")
            self.assertFalse(launch.closed, launch.output)
            version = max(int(line.split()[3]) for line in launch.lines if line.startswith("snapshot of version"))
            self.wait_for_steps(launch, 5)
            lines = len(launch.lines)
            harness.kill(self.pids()["server-1"])
            line = launch.wait_for_line("every shard starts from the snapshot of version ", since=lines)
            self.assertGreaterEqual(int(line.split()[-1]), version, "the snapshot taken after there was room is not used")
            self.wait_for_steps(launch, 5)
            self.assert_stops_with_same_bits(launch)
        recovery.say(f"{steps} steps while the disk was full; then: {line}")

    def test_a_disk_on_which_nothing_can_be_written(self):
        """Metrics, logs and the coordinator's log too. The job ends with the first record of a step that it cannot write;
        when there is room again it goes on, and nothing that was promised is lost."""
        folder = self.mount(self.path("run"), "40m")
        with self.launch(self.job()) as launch:
            launch.wait_for_line("snapshot of version")
            self.keep_full_until(folder, launch, lambda: False, "the end of the job")
            self.assertEqual(launch.wait(), 1, launch.output)
            said = self.assert_one_line_says(launch.output, "capstan: ", folder, "No space left on device")
            recovery.say("a full run directory: " + said[:250])
        self.make_room(folder)
        begun = recovery.count_records(folder)
        with self.resume() as launch:
            recovery.poll(lambda: launch.closed or recovery.records(folder)[-1]["step"] > begun, "more steps")
            self.assert_stops_with_same_bits(launch)

    def test_a_start_on_a_full_disk_fails_and_names_it(self):
        folder = self.mount(self.path("run"), "64k")
        self.fill(folder)
        with self.launch(self.job(), "--set", f"limits.join={harness.patient(15)}") as launch:
            self.assertEqual(launch.wait(), 1, launch.output)
        self.assertIn(folder, launch.output)
        recovery.say([line for line in launch.lines if folder in line][0][:300])


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("SKIPPED: mounting a small disk takes root; run it as root")
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    harness.main()
