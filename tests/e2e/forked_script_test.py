#!/usr/bin/python3
"""A script started by the fork server behaves, and ends, like a process that is started normally."""
import json
import os
import signal
import sys

import forked_script
import harness
import recovery
import skips

# A script that prints what a script can see of how it was started.
SEEN = """
import json, os, sys
module = sys.modules["__main__"]
names = {name: vars(module).get(name) for name in ("__name__", "__file__", "__package__")}
descriptors = sorted(name for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}"))
print(json.dumps([sys.argv, sys.path, os.getcwd(), dict(os.environ), names, descriptors, os.getpid() == os.getsid(0),
                  sys.stdout.isatty(), sys.stdout.line_buffering, sys.dont_write_bytecode, __name__]))
"""
# The ways in which a script may end.
ENDS = {
    "at its last line": "print('done')",
    "with a code": "import sys; sys.exit(3)",
    "with words": "import sys; sys.exit('words')",
    "by an exception": "raise ValueError('no such value')",
    "by a syntax error": "print('no",
    "after its threads and what was registered": "import atexit, threading\natexit.register(print, 'registered')\n"
                                                 "thread = threading.Timer(0.1, print, ['thread'])\nthread.start()",
    "after the end of its objects": "class Last:\n    def __del__(self): print('gone')\n"
                                    "last = [Last()]\nlast.append(last)\nprint('done')",
    "at once": "import os; print('lost'); os._exit(5)",
    "by a signal": "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
    "by an interrupt": "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
    "with other processes": "import multiprocessing as m\nif __name__ == '__main__':\n"
                            "    with m.get_context('spawn').Pool(1) as pool: print(pool.map(abs, [-1]))\n",
}
WAITS = "import signal; print('waits', flush=True); signal.pause()"
# A test that starts a script, and then waits to be killed.
TEST = """
import os, sys
import forked_script
server = forked_script.ForkServer([], dict(os.environ))
with forked_script.ForkedScript(server, "-c", sys.argv[1], cwd=".", environment=dict(os.environ)) as script:
    script.wait_for_line("waits")
    print("script", script.pid, flush=True)
    script.wait()
"""


def without_callers(lines):
    """Removes all lines of a traceback but the last: they also name what ran the script, which differs."""
    return [line for line in lines if not line.startswith((" ", "Traceback"))]


class ForkedScriptTest(harness.JobTest):
    @classmethod
    def setUpClass(cls):
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        cls.environment = {**buffered, "PYTHONPATH": "/elsewhere", "ONE": "1"}
        cls.server = forked_script.ForkServer(["json", "numpy"], {**buffered, "PYTHONPATH": "/packages", "OMP_NUM_THREADS": "1"})
        cls.addClassCleanup(cls.server.close)

    def forked(self, *arguments):
        return forked_script.ForkedScript(self.server, *arguments, cwd=self.folder, environment=self.environment)

    def from_nothing(self, *arguments):
        words = [f"{name}={value}" for name, value in self.environment.items()]
        return harness.Process("/usr/bin/env", "-i", *words, sys.executable, "-B", *arguments, cwd=self.folder)

    def both(self, *arguments):
        """Runs a script by the fork server and as a new process; yields the exit code and output of each."""
        for start in (self.forked, self.from_nothing):
            with start(*arguments) as process:
                yield process.wait(), process.lines

    def test_it_sees_what_a_script_from_nothing_sees(self):
        self.write("seen.py", SEEN)
        for arguments in (("seen.py", "one", "--two"), (self.path("seen.py"),), ("-c", SEEN, "one")):
            with self.subTest(arguments[0]):
                (code, lines), from_nothing = self.both(*arguments)
                self.assertEqual((code, lines), from_nothing)
                self.assertEqual(code, 0, lines)
                for ours, theirs in zip(json.loads(lines[0]), json.loads(from_nothing[1][0]), strict=True):
                    self.assertEqual(ours, theirs)

    def test_it_ends_as_a_script_from_nothing_ends(self):
        for how, lines in ENDS.items():
            with self.subTest(how):
                (code, output), (wanted, said) = self.both(self.write("ends.py", lines))
                self.assertEqual(code, wanted, output)
                self.assertEqual(without_callers(output), without_callers(said))

    def test_nothing_of_another_script_is_there(self):
        with self.forked("-c", "import numpy, sys; sys.known = numpy.known = 1; print(numpy.random.rand())") as first:
            self.assertEqual(first.wait(), 0, first.output)
        with self.forked("-c", "import numpy, sys; print(numpy.random.rand())\n"
                               "print(hasattr(sys, 'known'), hasattr(numpy, 'known'))") as second:
            self.assertEqual(second.wait(), 0, second.output)
        self.assertEqual(second.lines[1], "False False")
        self.assertNotEqual(second.lines[0], first.lines[0], "scripts draw the same random numbers")

    def test_it_is_killed_by_its_id_and_at_the_end_of_its_block(self):
        with self.forked("-c", WAITS) as killed, self.forked("-c", WAITS) as left:
            for script in (killed, left):
                script.wait_for_line("waits")
            os.kill(killed.pid, signal.SIGKILL)
            self.assertEqual(killed.wait(), -signal.SIGKILL)
            self.assertTrue(harness.ended(killed.pid))
            self.assertTrue(os.path.exists(f"/proc/{killed.pid}"), "its id is free for another process")
            self.assertFalse(harness.ended(left.pid))
        for script in (killed, left):
            recovery.poll(lambda: not os.path.exists(f"/proc/{script.pid}"), "the end of a script")

    def test_it_does_not_outlive_a_test_that_is_killed(self):
        with self.from_nothing("-c", TEST.replace("import forked_script", f"sys.path.append({os.path.dirname(__file__)!r})\n"
                                                  "import forked_script"), WAITS) as test:
            pid = int(test.wait_for_line("script ").split()[1])
            self.assertFalse(harness.ended(pid))
            os.kill(test.pid, signal.SIGKILL)
            recovery.poll(lambda: harness.ended(pid), "the end of a script")

    def test_a_server_that_cannot_import_is_named(self):
        server = forked_script.ForkServer(["no_such_module"], self.environment)
        self.addCleanup(server.close)
        with self.assertRaisesRegex(AssertionError, "the fork server has ended"):
            forked_script.ForkedScript(server, "-c", "", cwd=self.folder, environment=self.environment)


if __name__ == "__main__":
    skips.main("numpy")
