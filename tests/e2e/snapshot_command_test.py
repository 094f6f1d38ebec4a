"""capstan snapshot: lists, finds damage, exports, imports and deletes, also next to a running job."""
import glob
import hashlib
import json
import os
import shutil
import signal
import stat
import struct
import subprocess
import unittest

import harness
from safetensors_file import read_safetensors, write_safetensors

SNAPSHOTS = ("--set", "snapshot.every_steps=4", "--set", "snapshot.every_seconds=0", "--set", "snapshot.keep=3")


class SnapshotCommandTest(harness.JobTest):
    def snapshot(self, command, *arguments, run="run", code=0):
        """Runs `capstan snapshot`, which must end with this code. Returns stdout and stderr."""
        words = [harness.program("capstan"), "snapshot", command, "--run-dir", self.path(run), *arguments]
        done = subprocess.run(words, capture_output=True, text=True, timeout=harness.DEADLINE, cwd=self.folder)
        self.assertEqual(done.returncode, code, f"{command} {arguments}: {done.stdout}{done.stderr}")
        return done.stdout, done.stderr

    def rows(self, command, *arguments, **options):
        return json.loads(self.snapshot(command, "-o", "json", *arguments, **options)[0])

    def steps(self, run="run"):
        return [row["step"] for row in self.rows("list", run=run)]

    def run_job(self, *arguments, run="run", steps=10):
        with self.launch(self.job_file(steps=steps), *SNAPSHOTS, *arguments, run=run) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)

    def resume(self, run, *arguments):
        with harness.Process(harness.program("capstan"), "launch", "--resume", "--run-dir", self.path(run), *arguments,
                             cwd=self.folder) as launch:
            self.assertEqual(launch.wait(), 0, launch.output)
            return launch.output

    def final(self, run="run"):
        return read_safetensors(self.path(run, "final.safetensors"))[0]

    def digest(self, *path):
        with open(self.path(*path), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def tree(self, run="run"):
        """Returns the contents of all files of a run directory, by path."""
        files = {}
        for folder, _, names in os.walk(self.path(run)):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    files[os.path.join(folder, name)] = file.read()
        return files

    def run_with_three_snapshots(self):
        """Runs a job that has three snapshots at its end, and returns its number of steps. Tries longer jobs if there are fewer:
        a snapshot that is due while another one is written is skipped."""
        for steps in (200, 400, 1600, 6400):
            shutil.rmtree(self.path("run"), ignore_errors=True)
            self.run_job(steps=steps)
            if len(self.steps()) == 3:
                return steps
        self.fail("of 1600 snapshots, three were not taken")

    def test_a_finished_run_is_listed_verified_exported_and_thinned_out(self):
        last = self.run_with_three_snapshots()
        rows = self.rows("list")
        steps = [row["step"] for row in rows]
        self.assertEqual([step % 4 for step in steps], [0, 0, 0])
        self.assertEqual(steps, sorted(set(steps)))
        self.assertEqual(steps[-1], last)
        elements = sum(len(values) for _, values in self.final().values())
        for row in rows:
            self.assertEqual((row["generation"], row["shards"], row["whole"], row["problems"]), (1, 2, True, []))
            self.assertEqual(row["bytes"], 3 * elements)
            self.assertRegex(row["written"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        table = self.snapshot("list")[0].splitlines()
        self.assertEqual([line.split()[0] for line in table], ["step"] + [str(step) for step in steps])
        before = self.tree()
        checked = self.rows("verify")
        self.assertEqual([(row["step"], row["good"], row["bytes"]) for row in checked],
                         [(step, True, 3 * elements) for step in steps])
        self.assertEqual(len(self.rows("verify", "--step", str(steps[1]))), 1)
        self.check_exports(steps)
        self.assertEqual(self.tree(), before, "looking at a run has changed it")
        self.check_deletes(steps)

    def check_exports(self, steps):
        self.snapshot("export", "--to", self.path("last.safetensors"))
        self.assertEqual(self.digest("last.safetensors"), self.digest("run", "final.safetensors"))
        self.snapshot("export", "--step", str(steps[0]), "--to", self.path("first.safetensors"))
        first, metadata = read_safetensors(self.path("first.safetensors"))
        self.assertEqual(metadata, {"format": "pt"})
        self.assertEqual(list(first), list(self.final()))
        self.assertNotEqual(first, self.final())
        self.snapshot("export", "--optimizer", "--to", self.path("state.safetensors"))
        tensors, metadata = read_safetensors(self.path("state.safetensors"))
        self.assertEqual(metadata, {"format": "pt", "step": str(steps[-1]), "generation": "1",
                                    "updates": str(steps[-1]), "optimizer": "adamw", "job": "small"})
        names = list(self.final())
        self.assertEqual(list(tensors), names + [f"{name}/exp_avg" for name in names] +
                         [f"{name}/exp_avg_sq" for name in names])
        for name, tensor in self.final().items():
            self.assertEqual(tensors[name], tensor)
            squares = struct.unpack(f"<{len(tensor[1]) // 4}f", tensors[f"{name}/exp_avg_sq"][1])
            self.assertGreaterEqual(min(squares), 0.0)
            self.assertGreater(max(squares), 0.0)
        self.assertIn("there are those of " + ", ".join(str(step) for step in steps),
                      self.snapshot("export", "--step", "5", "--to", "x", code=2)[1])
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        for bad, why in (("/proc/x.safetensors", ".partial"), (self.path("no", "x.safetensors"), ".partial"),
                         (self.folder, ": it is there, and no file"), (pipe, ": it is there, and no file")):
            message = self.snapshot("export", "--to", bad, code=1)[1]
            self.assertIn(bad + why, message)
            self.assertFalse(os.path.exists(f"{bad}.partial"))
        self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode), "an export has replaced what is no file")
        os.remove(pipe)

    def check_deletes(self, steps):
        first, middle, last = (str(step) for step in steps)
        message = self.snapshot("delete", "--step", last, code=1)[1]
        self.assertIn("the newest", message)
        self.snapshot("delete", "--all-but", "0", code=2)
        self.snapshot("delete", code=2)
        self.assertEqual(self.steps(), steps)
        self.assertEqual([row["step"] for row in self.rows("delete", "--step", first)], steps[:1])
        self.assertEqual(self.steps(), steps[1:])
        self.assertEqual(self.rows("delete", "--all-but", "2"), [])
        self.rows("verify")
        self.snapshot("delete", "--step", last, "--force")
        self.assertEqual(self.steps(), [int(middle)])
        self.assertIn("no snapshot would be left", self.snapshot("delete", "--step", middle, "--force", code=1)[1])
        before = self.digest("run", "final.safetensors")
        os.remove(self.path("run", "final.safetensors"))
        self.resume("run")  # from the middle one, and the last steps once more
        self.assertEqual(self.digest("run", "final.safetensors"), before)
        again = [step["step"] for step in self.metrics() if step["generation"] == 2]
        self.assertEqual(again, list(range(int(middle), int(last))))
        self.assertEqual(self.steps()[-1], int(last))
        self.rows("verify")

    def test_a_damaged_part_is_named_and_nothing_is_made_of_it(self):
        self.run_job()
        folder = self.path("run", "snapshots", "shard-1")
        for table in glob.glob(os.path.join(folder, "*.sst")):
            with open(table, "r+b") as file:
                content = bytearray(file.read())
                if len(content) < 1000:
                    continue
                content[100] ^= 1
                file.seek(0)
                file.write(content)
        rows = self.rows("verify", code=1)
        self.assertEqual({row["good"] for row in rows}, {False})
        for row in rows:
            self.assertIn("part 1", " ".join(row["problems"]).replace("shard-1", "part 1"))
        self.snapshot("export", "--to", self.path("x.safetensors"), code=1)
        shutil.rmtree(folder)
        rows = self.rows("list")
        self.assertEqual({row["whole"] for row in rows}, {False})
        self.assertIn("part 1 is missing", rows[0]["problems"][0])
        self.assertIn("part 1 is missing", self.snapshot("export", "--to", self.path("x.safetensors"), code=1)[1])
        self.assertEqual(glob.glob(self.path("x.safetensors*")), [])

    def test_what_is_no_run_directory_is_said_to_be_none(self):
        self.assertIn("there is no run directory", self.snapshot("list", run="nothing", code=2)[1])
        os.mkdir(self.path("empty"))
        for command in (("list",), ("verify",), ("export", "--to", "x"), ("delete", "--step", "1")):
            self.assertIn("is no run directory", self.snapshot(*command, run="empty", code=2)[1])
        self.assertEqual(os.listdir(self.path("empty")), [])
        wrong = subprocess.run([harness.program("capstan"), "snapshot", "exprot"], capture_output=True, text=True,
                               timeout=harness.DEADLINE)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn('did you mean "export"?', wrong.stderr)

    def test_the_newest_run_is_meant_where_none_is_named(self):
        capstan = harness.program("capstan")
        for words, code, said in ((("snapshot", "list"), 2, "there is no run under runs/ here"),
                                  (("launch", self.job_file(steps=10), *SNAPSHOTS), 0, "done: 10 steps"),
                                  (("snapshot", "list"), 0, "of runs/small-")):
            with self.subTest(words), harness.Process(capstan, *words, cwd=self.folder) as command:
                self.assertEqual(command.wait(), code, command.output)
                self.assertIn(said, command.output)

    def test_beside_a_running_job_all_is_read_and_nothing_changed(self):
        # Many snapshots are kept, so that the job deletes some during a listing, but not all that were there when it
        # began.
        with self.launch(self.job_file(steps=1000000), *SNAPSHOTS, "--set", "snapshot.keep=30") as launch:
            launch.wait_for_line("running: ")
            for _ in range(harness.DEADLINE * 10):
                if len(self.steps()) >= 3:
                    break
            for _ in range(5):
                rows = self.rows("list")
                self.assertGreater(len(rows), 0)
                self.assertEqual({(row["shards"], row["whole"]) for row in rows}, {(2, True)}, rows)
                self.snapshot("export", "--to", self.path("running.safetensors"))
            for command in (("delete", "--all-but", "1"), ("import", self.path("job.toml"), "x")):
                code = 1 if command[0] == "delete" else 2
                self.snapshot(*command, code=code)
            message = self.snapshot("delete", "--all-but", "1", code=1)[1]
            self.assertIn(f"is running (process {launch.pid})", message)
            harness.kill(launch.pid, signal.SIGTERM)
            self.assertEqual(launch.wait(), 143, launch.output)
        self.rows("verify")
        self.snapshot("export", "--to", self.path("stopped.safetensors"))

    def test_imported_weights_are_where_a_job_begins(self):
        self.run_job()
        weights = self.path("run", "final.safetensors")
        # A step with a learning rate of zero, on another number of shards, leaves the weights as they are.
        job = self.path("job.toml")
        rest = ("--set", "optimizer.lr=0", "--set", "optimizer.kind=sgd", "--set", "job.steps=1")
        rows = self.rows("import", job, weights, *rest, run="new")
        self.assertEqual((rows[0]["step"], rows[0]["shards"], rows[0]["tensors"]), (0, 2, 4))
        self.assertEqual([(row["step"], row["whole"]) for row in self.rows("list", run="new")], [(0, True)])
        self.rows("verify", run="new")
        self.snapshot("export", "--to", self.path("back.safetensors"), run="new")
        self.assertEqual(self.digest("back.safetensors"), self.digest("run", "final.safetensors"))
        with self.launch(job, run="new") as launch:  # without --resume it would begin from other weights
            self.assertEqual(launch.wait(), 2, launch.output)
        self.assertIn("holds a run already", self.snapshot("import", job, weights, run="new", code=2)[1])
        self.resume("new", "--set", "cluster.servers=3")
        self.assertEqual(self.digest("new", "final.safetensors"), self.digest("run", "final.safetensors"))
        self.assertEqual([step["loss"] > 0 for step in self.metrics("new")], [True])
        # Training goes on from the imported weights, so the result differs from that of a fresh job.
        self.rows("import", job, weights, "--set", "job.mode=async", run="further")
        self.resume("further")
        self.assertNotEqual(self.digest("further", "final.safetensors"), self.digest("run", "final.safetensors"))
        self.assertLess(self.metrics("further")[0]["loss"], self.metrics("run")[0]["loss"])

    def test_weights_that_do_not_fit_are_all_named_and_nothing_is_made(self):
        self.run_job(steps=1)
        tensors = self.final()
        names = list(tensors)
        odd = dict(tensors)
        shape, values = odd.pop(names[0])
        odd["other." + names[0]] = (shape, values)
        odd[names[1]] = ([2], b"\0" * 8)
        odd[names[2]] = (tensors[names[2]][0], tensors[names[2]][1] * 2, "F64")
        write_safetensors(self.path("odd.safetensors"), odd)
        job = self.path("job.toml")
        message = self.snapshot("import", job, self.path("odd.safetensors"), run="new", code=2)[1]
        for wanted in (f'"{names[0]}" is missing', f'"other.{names[0]}" is left over', f'"{names[1]}" is F32[2]',
                       f'"{names[2]}" is F64'):
            self.assertIn(wanted, message)
        shape, values = tensors[names[0]]
        write_safetensors(self.path("odd.safetensors"), {**tensors, names[0]: (shape, values[:4] + b"\0\0\xc0\x7f" + values[8:])})
        message = self.snapshot("import", job, self.path("odd.safetensors"), run="new", code=2)[1]
        self.assertIn(f'element 1 of "{names[0]}" is nan', message)
        self.assertFalse(os.path.exists(self.path("new")))
        for bad in (b"", b"\xff" * 100):
            with open(self.path("bad.safetensors"), "wb") as file:
                file.write(bad)
            self.snapshot("import", job, self.path("bad.safetensors"), run="new", code=1)
        self.snapshot("import", job, self.path("nothing.safetensors"), run="new", code=2)
        self.assertFalse(os.path.exists(self.path("new")))
        renamed = {f"other.{name}": tensor for name, tensor in tensors.items()}
        write_safetensors(self.path("renamed.safetensors"), renamed)
        maps = [text for name in names for text in ("--map", f"other.{name}={name}")]
        self.snapshot("import", job, self.path("renamed.safetensors"), *maps, run="new")
        self.snapshot("export", "--to", self.path("back.safetensors"), run="new")
        self.assertEqual(read_safetensors(self.path("back.safetensors"))[0], tensors)
        self.assertIn("no tensor", self.snapshot("import", job, self.path("renamed.safetensors"), "--map", "x=y",
                                                 run="other", code=2)[1])

    def test_a_part_of_another_job_and_an_edited_log_are_noticed_and_a_torn_line_is_none(self):
        self.run_job(run="one", steps=4)
        self.run_job(run="two", steps=4)
        shutil.rmtree(self.path("one", "snapshots", "shard-0"))
        shutil.copytree(self.path("two", "snapshots", "shard-0"), self.path("one", "snapshots", "shard-0"))
        self.assertIn("is not the one that the snapshot was made with", self.snapshot("verify", run="one", code=1)[0])
        self.snapshot("export", "--to", self.path("x.safetensors"), run="one", code=1)
        log = self.path("two", "snapshots", "coordinator.log")
        with open(log, "rb") as file:
            content = file.read()
        for cut in (content[:-7], content + b"0123456789abcdef {\"rec"):  # a last line that is torn
            with open(log, "wb") as file:
                file.write(cut)
            self.snapshot("list", run="two")
            self.assertEqual(os.path.getsize(log), len(cut))
        with open(log, "wb") as file:
            file.write(content.replace(b'"generation":1', b'"generation":2', 1))
        self.assertIn("somebody has edited it", self.snapshot("list", run="two", code=1)[1])


if __name__ == "__main__":
    harness.main()
