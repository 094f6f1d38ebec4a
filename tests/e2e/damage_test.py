#!/usr/bin/python3
"""Files of a run that are damaged, missing, foreign or old: they are noticed before use, named, and never made worse."""
import glob
import os
import random
import re
import shutil
import signal
import tempfile

import harness
import recovery


def big_files(shard_folder):
    """Returns the SST files that have blocks, those of the newest snapshot first: RocksDB numbers its files in order."""
    names = sorted(glob.glob(os.path.join(shard_folder, "*.sst")), reverse=True)
    return [name for name in names if os.path.getsize(name) > 100000]


def flip_bytes(path, rng, count=3):
    """Flips bits of `count` random bytes in the middle half of the file, where the blocks are."""
    size = os.path.getsize(path)
    with open(path, "r+b") as file:
        for _ in range(count):
            place = rng.randrange(size // 4, size // 4 * 3)
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ (1 << rng.randrange(8))]))


def truncate(path, _):
    os.truncate(path, os.path.getsize(path) // 2)


def delete(path, _):
    os.unlink(path)


class DamageTest(recovery.RecoveryTest):
    # The time after which a job gives up waiting for a server that was refused. All other processes must have started
    # by then.
    LIMITS = ("--set", f"limits.join={harness.patient(15)}")

    def setUp(self):
        super().setUp()
        seed = recovery.chaos_seed()
        recovery.say(f"CAPSTAN_CHAOS_SEED={seed}")
        self.rng = random.Random(seed)

    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="capstan-stopped-")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        cls.stopped, cls.foreign = (cls.stop_a_run(folder, run) for run in ("stopped", "foreign"))

    @classmethod
    def stop_a_run(cls, folder, name):
        """Runs a job and kills it after its third snapshot, when two of them are still there. Returns the run directory."""
        job, run = os.path.join(folder, "job.toml"), os.path.join(folder, name)
        with open(job, "w", encoding="utf-8") as file:
            file.write(cls.text(cls.STEPS))
        for _ in range(10):  # a busy machine may be in the middle of the next snapshot when the job is killed
            shutil.rmtree(run, ignore_errors=True)
            cls.kill_after_three_snapshots(job, run)
            if all(len(big_files(shard)) == 2 for shard in recovery.snapshots_in(run).values()):
                return run
        raise AssertionError("each of 10 jobs was killed during a snapshot")

    @staticmethod
    def kill_after_three_snapshots(job, run):
        with harness.Process(harness.program("capstan"), "launch", job, "--run-dir", run) as launch:
            recovery.poll(lambda: launch.output.count("\nsnapshot of version") >= 3 or launch.closed, "three snapshots")
            harness.kill(launch.pid)
            launch.wait()  # its output ends when nobody holds it open

    def stopped_run(self):
        """Copies the stopped run, so that every test begins with the same run. Returns the folders of its shards by number."""
        shutil.copytree(self.stopped, self.path("run"), dirs_exist_ok=True)
        return recovery.snapshots_in(self.path("run"))

    def assert_refused(self, *words, then_say=""):
        """Checks that the job does not begin and prints one line with these words. Returns the line."""
        with self.resume(*self.LIMITS) as launch:
            self.assertIn(launch.wait(), (1, 2), launch.output)
            self.assertNotIn("done: ", launch.output)
            line = self.assert_one_line_says(launch.output, "capstan: ", *words)
        recovery.say(f"{then_say}: {line[:300]}")
        self.assert_nothing_runs()
        return line

    def assert_goes_on(self, *arguments):
        """Checks that the job continues beyond all earlier steps and has an undisturbed job's weights. Returns its output."""
        begun = max(record["step"] for record in recovery.records(self.path("run")))
        with self.resume(*arguments) as launch:
            recovery.poll(lambda: launch.closed or recovery.records(self.path("run"))[-1]["step"] > begun + 10, "more steps")
            self.assert_stops_with_same_bits(launch)
        return launch.output

    def put_right(self, *names):
        """Restores these entries of snapshots/ to their state before the damage. The job must then continue."""
        for name in names:
            source, target = os.path.join(self.stopped, "snapshots", name), self.path("run", "snapshots", name)
            if os.path.isdir(source):
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(source, target)
            else:
                shutil.copy2(source, target)
        self.assert_goes_on()

    # ---- snapshots

    def newest_is_damaged(self, damage):
        shards = self.stopped_run()
        victim = big_files(shards[self.rng.randrange(2)])[0]
        damage(victim, self.rng)
        said = self.assert_goes_on()
        line = self.assert_one_line_says(said, "warning: ", "snapshot of version", "going back to the one of version")
        recovery.say(f"{damage.__name__} {os.path.relpath(victim, self.path('run'))}: {line[:200]}")

    def test_flipped_bytes_in_the_newest_snapshot(self):
        self.newest_is_damaged(flip_bytes)

    def test_the_newest_snapshot_cut_short(self):
        self.newest_is_damaged(truncate)

    def test_a_file_of_the_newest_snapshot_deleted(self):
        self.newest_is_damaged(delete)

    def test_all_snapshots_of_a_shard_damaged(self):
        damaged = big_files(self.stopped_run()[1])
        for file in damaged:
            flip_bytes(file, self.rng, 20)
        self.assert_refused("snapshot of version", "cannot be used", "there is no older one", then_say="all damaged")
        self.put_right(*[os.path.relpath(file, self.path("run", "snapshots")) for file in damaged])

    def test_a_shard_directory_deleted_whole(self):
        shutil.rmtree(self.stopped_run()[0])
        self.assert_refused("no server has shard 0", then_say="a directory is gone")
        self.put_right("shard-0")

    def test_a_shard_directory_of_another_job(self):
        shards = self.stopped_run()
        shutil.rmtree(shards[1])
        shutil.copytree(recovery.snapshots_in(self.foreign)[1], shards[1])
        self.assert_refused("server 1", "belongs to another job", then_say="another job's directory")
        self.put_right("shard-1")

    def test_a_shard_directory_of_another_shard(self):
        shards = self.stopped_run()
        shutil.rmtree(shards[1])
        shutil.copytree(shards[0], shards[1])
        self.assert_refused("shard-1 is the directory of shard 0", "moved or copied", then_say="another shard's directory")
        self.put_right("shard-1")

    def test_snapshots_without_their_life_record(self):
        """The log of the shard's database is deleted, and with it what the coordinator told the shard. The coordinator's log
        still has all of that, and the snapshot's parts have the digests in its manifest."""
        logs = glob.glob(os.path.join(self.stopped_run()[0], "*.log"))
        self.assertTrue(logs)
        for log in logs:
            os.unlink(log)
        said = self.assert_goes_on(*self.LIMITS)
        self.assert_one_line_says(said, "every shard starts from the snapshot of version ")

    # ---- the coordinator's log

    def log_lines(self):
        self.stopped_run()
        path = self.path("run", "snapshots", "coordinator.log")
        with open(path, "rb") as file:
            return path, file.read().splitlines(keepends=True)

    def write_log(self, path, content):
        with open(path, "wb") as file:
            file.write(content)

    def test_a_torn_tail_of_the_log_is_fine(self):
        for cut in (1, 30):
            with self.subTest(cut):
                path, lines = self.log_lines()
                self.write_log(path, b"".join(lines) + lines[-1][:cut])
                self.assert_goes_on()
                shutil.rmtree(self.path("run"))

    def test_a_flipped_byte_in_the_middle_of_the_log_is_named(self):
        for number in (3, -2):
            with self.subTest(number):
                path, lines = self.log_lines()
                number %= len(lines)
                place = self.rng.randrange(len(lines[number]) - 1)
                lines[number] = lines[number][:place] + bytes([lines[number][place] ^ 4]) + lines[number][place + 1:]
                self.write_log(path, b"".join(lines))
                self.assert_refused(f"coordinator.log:{number + 1}", "not what was written", then_say=f"line {number + 1}")
                shutil.rmtree(self.path("run"))

    def test_a_log_that_is_gone_is_named(self):
        path, _ = self.log_lines()
        os.unlink(path)
        self.assert_refused("coordinator.log", then_say="no log")
        self.put_right("coordinator.log")

    def test_an_empty_log_is_refused(self):
        path, _ = self.log_lines()
        self.write_log(path, b"")
        self.assert_refused("coordinator.log", then_say="an empty log")
        self.put_right("coordinator.log")

    def old_log(self):
        """Continues the run until it has another term, generation and snapshot, then puts back the coordinator's log as it was
        before. Returns the log's path and its newer content."""
        path, lines = self.log_lines()
        with self.resume() as launch:
            launch.wait_for_line("running: ")
            launch.wait_for_line("snapshot of version")
            harness.kill(launch.pid)
        with open(path, "rb") as file:
            newest = file.read()
        self.write_log(path, b"".join(lines))
        return path, newest

    def test_an_old_copy_of_the_log_is_refused(self):
        path, newest = self.old_log()
        self.assert_refused("has seen term", "old copy", "--accept-rollback", then_say="an old log")
        self.write_log(path, newest)
        self.assert_goes_on()

    def test_an_old_copy_of_the_log_counts_where_that_is_accepted(self):
        self.old_log()
        self.assert_one_line_says(self.assert_goes_on("--accept-rollback"), "rolling back", "the log counts")

    def test_a_log_without_the_newest_manifests_is_refused(self):
        """The log keeps only the first manifest, which is of the newest generation. Before a shard made its part of the third
        snapshot, it had been told that the second one is retained, so it knows more than this log."""
        path, lines = self.log_lines()
        first = next(number for number, line in enumerate(lines) if b"manifest" in line.lower())
        self.write_log(path, b"".join(lines[:first + 1]))
        self.assert_refused("has seen term", "old copy", "--accept-rollback", then_say="a log with one manifest")
        self.put_right("coordinator.log")

    # ---- two at once

    def test_a_second_coordinator_in_the_directory_is_refused(self):
        job = self.job()
        with self.launch(job) as launch, self.slow_workers():
            launch.wait_for_line("running: ")
            for arguments in ((), ("--resume",)):
                with harness.Process(harness.program("capstan-server"), self.path("run", "job.toml"), "--coordinator",
                                     "--run-dir", self.path("run"), *arguments) as second:
                    self.assertIn(second.wait(), (1, 2), second.output)
                    self.assert_one_line_says(second.output, "in use")
            with self.resume() as second:
                self.assertIn(second.wait(), (1, 2), second.output)
                self.assert_one_line_says(second.output, "in use")
            self.wait_for_steps(launch, 20)
            self.assertEqual(self.warnings(launch), [])
            harness.kill(launch.pid, signal.SIGTERM)
            self.assertEqual(launch.wait(), 143, launch.output)
        self.assertEqual({record["generation"] for record in recovery.records(self.path("run"))}, {1})

    def warnings(self, launch):
        """Returns the warnings, except those that a machine causes by standing still for a while."""
        of_time = re.compile(r"warning: (waiting \d+ s for |\S+ has been silent for \d|\S+ \(process \d+\) has not run for \d)")
        return [line for line in launch.lines if "warning" in line and not of_time.match(line)]

    def test_a_second_server_in_the_directory_is_refused(self):
        with self.launch(self.job()) as launch, self.slow_workers():
            launch.wait_for_line("running: ")
            with harness.Process(harness.program("capstan-server"), self.path("run", "job.toml"), "--index", "1", "--set",
                                 f"cluster.coordinator={self.endpoints()['coordinator']}", "--run-dir",
                                 self.path("run")) as second:
                self.assertIn(second.wait(), (1, 2), second.output)
                self.assert_one_line_says(second.output, "shard-1", "another server")
            self.wait_for_steps(launch, 20)
            harness.kill(launch.pid, signal.SIGTERM)
            launch.wait()


if __name__ == "__main__":
    harness.main()
