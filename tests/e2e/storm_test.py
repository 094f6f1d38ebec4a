#!/usr/bin/python3
"""scripts/storm, which scripts/demo runs: equal weights after every process was killed, or exit code 1."""
import os
import subprocess

import harness

STORM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "storm")
# A stand-in for capstan. In the run named storm, its only process waits until it is killed.
STAND_IN = """\
#!/usr/bin/python3
import json, os, subprocess, sys
if "--print-config" in sys.argv:
    sys.exit(print("[job]\\nsteps = 4\\nslots = 2\\n[cluster]\\nworkers = 2"))
run = sys.argv[sys.argv.index("--run-dir") + 1]
stormy = os.path.basename(run) == "storm"
os.makedirs(run + "/pids")
def write(name, text):
    with open(f"{run}/{name}", "w") as file:
        file.write(text)
with subprocess.Popen(["sleep", "1000"]) as child:
    write("pids/worker-0", str(child.pid))
    write("endpoints.json", '{"metrics": {"coordinator": "127.0.0.1:1"}}')
    write("metrics.jsonl", "".join(json.dumps({"step": step, "loss": 1.0}) + "\\n" for step in range({STEPS})))
    if {DIES} or not stormy:
        child.kill()
    child.wait()
write("final.safetensors", {WEIGHTS})
sys.exit({CODE})
"""


class StormTest(harness.JobTest):
    def storm(self, *arguments, code):
        ran = subprocess.run([STORM, *arguments, "--run-dir", self.path("run")], cwd=self.folder, capture_output=True,
                             text=True, timeout=harness.DEADLINE, check=False)
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return ran.stdout + ran.stderr

    def storm_of_stand_in(self, code, **settings):
        text = STAND_IN
        for name, value in {"STEPS": 4, "DIES": False, "WEIGHTS": "'same'", "CODE": 0, **settings}.items():
            text = text.replace("{" + name + "}", str(value))
        os.chmod(self.write("capstan", text), 0o755)
        return self.storm("job.toml", "--bin", self.folder, code=code)

    def test_every_process_is_killed_once_and_the_bits_stay(self):
        # The steps take so long that the last kill comes before the job's end.
        said = self.storm(self.job_file(steps=400), "--bin", harness.BIN, "--set", "job.eval_every=0", "--set",
                          "data.features=256", "--set", "model.hidden=[256, 256]", code=0)
        self.assertIn("the same bits", said)
        for name in ("coordinator", "server-0", "server-1", "worker-0", "worker-1", "worker-2"):
            self.assertEqual(said.count(f"kill -9 {name} (process "), 1, said)
        self.assertEqual(said.count("the status page of the "), 2, said)
        self.assertIn("└──", said)
        self.assert_nothing_runs("run/calm")
        self.assert_nothing_runs("run/storm")

    def test_other_weights_are_a_failure(self):
        said = self.storm_of_stand_in(1, WEIGHTS="run")
        self.assertIn("kill -9 worker-0", said)
        self.assertIn("OTHER BITS", said)

    def test_a_run_that_ends_before_the_kills_is_a_failure(self):
        self.assertIn("ended before worker-0 was killed", self.storm_of_stand_in(1, DIES=True, STEPS=2))

    def test_a_run_that_fails_is_a_failure(self):
        self.assertIn("the calm run failed (exit code 3)", self.storm_of_stand_in(1, CODE=3))

    def test_a_job_that_cannot_be_read_is_a_failure(self):
        self.assertIn("the job file cannot be used", self.storm("nowhere.toml", "--bin", harness.BIN, code=1))

    def test_without_a_build_it_says_what_to_do(self):
        self.assertEqual(self.storm(self.job_file(), "--bin", "nowhere", code=2),
                         "storm: there is no build in nowhere: run scripts/demo first, or give --bin DIR\n")


if __name__ == "__main__":
    harness.main()
