#!/usr/bin/python3
"""A full disk under each file that a job writes. Snapshots are given up with a warning that names the place, and training
continues; for everything else the job waits. When there is room again it continues with the same bits. The disk is a
small tmpfs, which needs root."""
import contextlib
import os
import shutil
import signal
import subprocess
import sys

import durable_test
import harness
import recovery


class SmallDiskTest(recovery.RecoveryTest):
    WAITS = "waits for room on the disk"

    def mount(self, folder, size):
        os.makedirs(folder, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "capstan-e2e", folder], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=False)
        return folder

    def fill(self, folder):
        """Fills the disk to the last byte. The job may free space later, by deleting an older snapshot."""
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

    def elsewhere(self, run, name, is_folder):
        """Puts an entry of the run directory on another disk than the one that fills."""
        os.makedirs(self.path("elsewhere"), exist_ok=True)
        target = self.path("elsewhere", name)
        if is_folder:
            os.makedirs(target)
        os.symlink(target, os.path.join(run, name))

    def assert_waits_for(self, launch, folder, *names):
        """Checks that the job waits, and names one of these files and how much space is free."""
        self.keep_full_until(folder, launch, lambda: self.WAITS in launch.output, "a job that waits for room")
        self.assertFalse(launch.closed, launch.output)
        said = self.assert_one_line_says(launch.output, self.WAITS, folder, "No space left", "; 0 bytes are free")
        self.assertTrue(any(os.path.join(folder, name) in said for name in names), said)
        recovery.say(said[:300])


class DiskFullTest(SmallDiskTest):
    def run_with_a_shard_on_a_small_disk(self):
        """Makes a stopped run, and moves the directory of its second shard to a small disk. Returns that directory."""
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
        """The disk has the metrics, logs, snapshots, process ids and the coordinator's log. A worker that is killed meanwhile is
        started again, and its new process id is written when there is room."""
        folder = self.mount(self.path("run"), "40m")
        with self.launch(self.job()) as launch:
            launch.wait_for_line("snapshot of version")
            self.assert_waits_for(launch, folder, "metrics.jsonl", "snapshots/coordinator.log")
            stood_at = recovery.count_records(folder)
            old = self.pids()["worker-0"]
            harness.kill(old)
            self.keep_full_until(folder, launch, lambda: "pids/worker-0" in launch.output, "an id that is not written")
            self.assertEqual(recovery.count_records(folder), stood_at)
            lines = len(launch.lines)
            self.make_room(folder)
            launch.wait_for_line("there is room on the disk again after ", since=lines)
            recovery.poll(lambda: launch.closed or self.pids()["worker-0"] != old, "the id of the new worker")
            self.wait_for_steps(launch, 2 * self.EVERY)
            launch.wait_for_line("snapshot of version", since=lines)
            self.assert_stops_with_same_bits(launch)

    def test_a_coordinators_log_that_finds_no_room(self):
        """Only this log is on the full disk; the shards' files and all others are on other disks."""
        folder = self.mount(self.path("run", "snapshots"), "64k")
        for shard in ("shard-0", "shard-1"):
            self.elsewhere(folder, shard, is_folder=True)
        with self.launch(self.job()) as launch:
            launch.wait_for_line("running: ")
            self.assert_waits_for(launch, folder, "coordinator.log")
            lines = len(launch.lines)
            self.make_room(folder)
            launch.wait_for_line("there is room on the disk again after ", since=lines)
            launch.wait_for_line("snapshot of version", since=lines)
            self.assert_stops_with_same_bits(launch)

    def test_final_weights_that_find_no_room(self):
        steps = 4 * self.EVERY
        folder = self.mount(self.path("run"), "8m")
        self.elsewhere(folder, "snapshots", is_folder=True)
        self.elsewhere(folder, "metrics.jsonl", is_folder=False)
        with self.launch(self.job(steps)) as launch:
            with self.slow_workers():  # so that the disk is full before the job ends
                launch.wait_for_line("running: ")
                self.fill(folder)
            self.assert_waits_for(launch, folder, "final.safetensors")
            lines = len(launch.lines)
            self.make_room(folder)
            launch.wait_for_line("there is room on the disk again after ", since=lines)
            self.assert_same_bits(launch, steps=steps)

    def test_a_job_that_is_stopped_while_it_waits(self):
        folder = self.mount(self.path("run"), "40m")
        with self.launch(self.job()) as launch:
            launch.wait_for_line("snapshot of version")
            self.assert_waits_for(launch, folder, "metrics.jsonl", "snapshots/coordinator.log")
            harness.kill(launch.pid, signal.SIGINT)
            self.assertEqual(launch.wait(), 128 + signal.SIGINT, launch.output)
            self.assert_one_line_says(launch.output, folder, "stopped while it waited for room")
        self.make_room(folder)
        with self.resume() as launch:
            launch.wait_for_line("running: ")
            self.wait_for_steps(launch, 2 * self.EVERY)
            self.assert_stops_with_same_bits(launch)

    def test_a_start_on_a_full_disk_fails_and_names_it(self):
        folder = self.mount(self.path("run"), "64k")
        self.fill(folder)
        with self.launch(self.job(), "--set", f"limits.join={harness.patient(15)}") as launch:
            self.assertEqual(launch.wait(), 1, launch.output)
        self.assertIn(folder, launch.output)
        recovery.say([line for line in launch.lines if folder in line][0][:300])


class DurableLogTest(SmallDiskTest):
    """A server cannot log pushes that it must acknowledge durably."""

    def test_acknowledged_pushes_wait_for_room_and_none_is_lost(self):
        folder = self.mount(self.path("run", "snapshots", "shard-1"), "48m")
        job = durable_test.JOB.format(mode="async", steps=harness.ENDLESS, join=self.JOIN, lease=self.LEASE, stall=recovery.STALL)
        with self.launch(self.write("durable.toml", job)) as launch:
            launch.wait_for_line("snapshot of version")
            self.keep_full_until(folder, launch, lambda: "shard 1 cannot write to its log" in launch.output, "a log without room")
            recovery.say(self.assert_one_line_says(launch.output, "shard 1 cannot write to its log", folder)[:300])
            self.make_room(folder)
            self.wait_for_steps(launch, 2 * self.EVERY)
            lines = len(launch.lines)
            self.fill(folder)
            harness.kill(self.pids()["server-1"])
            self.keep_full_until(folder, launch, lambda: "server-1 waits for room on the disk" in launch.output,
                                 "a server that starts on a full disk")
            stood_at = recovery.count_records(self.path("run"))
            self.make_room(folder)
            launch.wait_for_line("every shard goes on where it was", since=lines)
            recovery.poll(lambda: recovery.count_records(self.path("run")) > stood_at + 20 or launch.closed, "more steps")
            recovery.stop(launch)
            self.assertNotIn(durable_test.LOST, launch.output)
            steps = [record["step"] for record in self.metrics()]
            self.assertEqual(sorted(set(steps)), list(range(max(steps) + 1)))


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("SKIPPED: mounting a small disk takes root; run it as root")
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    harness.main()
