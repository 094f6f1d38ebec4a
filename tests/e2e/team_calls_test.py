#!/usr/bin/python3
"""Collective calls of three processes: each operation beside numpy; a killed server, coordinator or member; errors by name."""
import contextlib
import os
import signal
import sys

import harness
import recovery
import team_job

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "team_script.py")
RANKS = 3
JOB = f"""\
{team_job.text(RANKS)}
[limits]
lease = {harness.patient(2)}
join = {harness.DEADLINE}
report = 1
"""


class TeamCallsTest(harness.JobTest):
    @contextlib.contextmanager
    def team(self, *how, run="run"):
        """A job and its processes, by rank."""
        with self.launch(self.write("job.toml", JOB), run=run) as launch, contextlib.ExitStack() as stack:
            address = harness.own_address(launch)
            packages = os.path.join(os.path.dirname(harness.BIN), "lib", "python3", "dist-packages")
            members = [stack.enter_context(harness.Process(
                "/usr/bin/env", f"RANK={rank}", f"RANKS={RANKS}", f"CAPSTAN_COORDINATOR={address}", f"PYTHONPATH={packages}",
                "OMP_NUM_THREADS=1", sys.executable, "-B", SCRIPT, *how, cwd=self.folder)) for rank in range(RANKS)]
            yield launch, members

    def end_well(self, launch, members):
        for member in members:
            self.assertEqual(member.wait(), 0, member.output)
        self.assertEqual(launch.wait(), 0, launch.output)

    def test_each_operation_has_the_bits_of_numpy_and_what_is_wrong_is_refused_at_its_line(self):
        with self.team("ops") as (launch, members):
            self.end_well(launch, members)
        for member in members:
            self.assertIn("all operations are right", member.output)
            self.assertRegex(member.output, r"over the limit: all_reduce\(sum\) of 17825792 float32, 68 MiB, and a member gives "
                                            r"at most 64 MiB in a call: for part in numpy.array_split\(values.reshape\(-1\), 2\)")
            self.assertIn('a type: all_reduce of a buffer of format "Zf"; it takes float32', member.output)
            self.assertIn("not contiguous: all_reduce of a buffer that is not contiguous: give numpy.ascontiguousarray", member.output)

    def digests(self, run, disturb):
        """Runs the calls; `disturb(launch)` is called while rank 0 holds the others in the middle of a call."""
        gate = self.path(f"gate-{run}")
        os.mkfifo(gate)
        with self.team("loop", gate, run=run) as (launch, members):
            for member in members:
                member.wait_for_line("in the middle")
            disturb(launch)
            with open(gate, "w", encoding="ascii"):
                pass
            self.end_well(launch, members)
        found = [member.wait_for_line("digest ") for member in members]
        self.assertEqual(len(set(found)), 1, found)
        return found[0]

    def kill(self, run, name, launch):
        pid = recovery.pid_of(self.path(run), name)
        os.kill(pid, signal.SIGKILL)
        recovery.poll(lambda: recovery.pid_of(self.path(run), name) not in (None, pid), f"another {name}")

    def test_a_killed_server_or_coordinator_changes_no_bit(self):
        undisturbed = self.digests("none", lambda launch: None)
        for name in ("server-0", "coordinator"):
            with self.subTest(name):
                self.assertEqual(self.digests(name, lambda launch: self.kill(name, name, launch)), undisturbed)

    def test_a_killed_member_is_named_within_the_lease(self):
        gate = self.path("gate")
        os.mkfifo(gate)
        with self.team("loop", gate) as (_, members):
            for member in members:
                member.wait_for_line("in the middle")
            os.kill(members[2].pid, signal.SIGKILL)
            self.assertEqual(members[1].wait(), 3, members[1].output)  # it waits in the call
            with open(gate, "w", encoding="ascii"):
                pass
            self.assertEqual(members[0].wait(), 3, members[0].output)  # it makes the call afterwards
            for member in members[:2]:
                self.assertIn('rank 2 of 3 ("r2") of the team is lost or has left; form another team', member.output)
                self.assertIn("Unreachable after", member.output)

    def test_calls_that_differ_are_named_in_all_members(self):
        with self.team("differ") as (_, members):
            for member in members:
                self.assertEqual(member.wait(), 3, member.output)
                self.assertRegex(member.output, r"Invalid after .*: rank [012] of 3 \(\"r.\"\) calls all_reduce\(sum\) of [34] "
                                                r"float32, and rank [012] of 3 \(\"r.\"\) all_reduce\(sum\) of [34] float32")

    def test_a_deadline_names_who_is_missing_and_the_same_call_goes_on(self):
        gate = self.path("gate")
        os.mkfifo(gate)
        with self.team("lonely", "0.3", gate) as (launch, members):
            for member in members[:2]:
                member.wait_for_line('waited for rank 2 of 3 ("r2") in all_reduce(sum) of 5 float32 until the deadline')
            with open(gate, "w", encoding="ascii"):
                pass
            self.end_well(launch, members)
        for member in members:
            self.assertIn("sum 3.0", member.output)


if __name__ == "__main__":
    harness.main()
