"""The client in the user's own trainers: installed, built against from outside the tree, killed, and used wrongly."""
import contextlib
import functools
import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

import gate
import harness
import installed_prefix
import recovery
import skips
import two_machines

# A pattern for the libraries that the shared client library may need: not CUDA, RocksDB, OpenBLAS, prometheus or a logger.
NEEDED = r"lib(sodium|capnp-[\d.]+|kj-[\d.]+|xxhash|stdc\+\+|m|gcc_s|c)\.so(\.\d+)*|ld-linux-x86-64\.so\.2"
CXX_NAMES = {"capstan::CheckFailed", "capstan::Client::Connect", "capstan::CodeName", "capstan::PrintNotice",
             "capstan::Reader::Connect", "capstan::Status::ToString[abi:cxx11]"}
STEPS = 400
KILLED_AT = 200  # steps that are committed before something is killed
HELD_AT = 300  # before this step, programs that are to be killed wait for the test
PREFIX = BUILT = None
# C++ code for the beginning of a round: waits at a gate, as wait_at() of gate.py does.
WAIT = f"""
    if (const char* gate = work->step >= {HELD_AT} ? std::getenv("{gate.VARIABLE}") : nullptr) {{
      static const int file = open(gate, O_RDONLY);
      flock(file, LOCK_SH);
    }}
"""


def run(*arguments, **options):
    ran = subprocess.run(arguments, capture_output=True, text=True, timeout=4 * harness.DEADLINE, check=False, **options)
    if ran.returncode != 0:
        raise AssertionError(f"{' '.join(arguments)} gave {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def setUpModule():
    global PREFIX, BUILT
    PREFIX = installed_prefix.prefix(harness.BIN)
    BUILT = tempfile.mkdtemp(prefix="capstan-built-")
    unittest.addModuleCleanup(shutil.rmtree, BUILT, ignore_errors=True)
    harness.BIN = os.path.join(PREFIX, "bin")
    for language in ("c", "cpp"):
        build_by_cmake(language, "capstan::client", os.path.join(BUILT, language))


def installed(*names):
    return os.path.join(PREFIX, *names)


def example(language, name=""):
    return installed("share", "doc", "capstan", "examples", "embed", language, name)


def build_by_cmake(language, library, folder):
    """Builds a copy of the example that links `library` instead of capstan::client. Returns the program's path."""
    shutil.copytree(example(language), folder)
    lists = os.path.join(folder, "CMakeLists.txt")
    with open(lists, encoding="utf-8") as file:
        text = file.read()
    with open(lists, "w", encoding="utf-8") as file:
        file.write(re.sub(r"capstan::client\b", library, text))
    run("cmake", "-G", "Ninja", "-S", folder, "-B", folder + "/build", f"-DCMAKE_PREFIX_PATH={PREFIX}")
    run("cmake", "--build", folder + "/build")
    return os.path.join(folder, "build", "linear" if language == "cpp" else "logistic")


def build_by_pkg_config(language, package, program, source=None):
    compiler, name = (("g++", "-std=c++20"), "linear.cc") if language == "cpp" else (("cc", "-std=c99"), "logistic.c")
    environment = {**os.environ, "PKG_CONFIG_PATH": installed("lib", "pkgconfig")}
    flags = run("pkg-config", "--cflags", "--libs", package, env=environment).split()
    run(*compiler, source or example(language, name), *flags, "-lm", f"-Wl,-rpath,{installed('lib')}", "-o", program)
    return program


def linear():
    return os.path.join(BUILT, "cpp", "build", "linear")


def logistic():
    return os.path.join(BUILT, "c", "build", "logistic")


@functools.cache
def paced_linear():
    """Builds the C++ example with a gate: from step HELD_AT on, a round waits until the gate is open. Returns the path."""
    with open(example("cpp", "linear.cc"), encoding="utf-8") as file:
        before, done, after = file.read().partition("if (!work) return {};  // the job is done\n")
    assert done, "the example has another loop"
    source = os.path.join(BUILT, "paced_linear.cc")
    with open(source, "w", encoding="utf-8") as file:
        file.write("#include <fcntl.h>\n#include <sys/file.h>\n#include <cstdlib>\n" + before + done + WAIT + after)
    return build_by_pkg_config("cpp", "capstan", os.path.join(BUILT, "paced_linear"), source)


class LibraryTest(unittest.TestCase):
    def test_public_headers_need_the_standard_library_alone(self):
        headers = sorted(os.listdir(installed("include", "capstan")))
        with_libtorch = ["libtorch.h"] if "libtorch.h" in headers else []  # where libtorch is installed
        self.assertEqual(headers, ["capstan.h", "client.h", "client_counters.h", "collectives.h", "hyper_parameters.h",
                                   *with_libtorch, "metric.h", "reader.h", "status.h"])
        flags = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", installed("include")]
        for header in headers:
            run("g++", "-std=c++17", *flags, "-x", "c++", "-", input=f"#include <capstan/{header}>\n")
        run("cc", "-std=c99", "-pedantic-errors", *flags, "-x", "c", "-", input="#include <capstan/capstan.h>\n")

    def test_the_shared_library_needs_what_it_may(self):
        section = run("readelf", "-d", installed("lib", "libcapstan_client.so"))
        self.assertEqual(re.findall(r"\(SONAME\).*\[(.*)\]", section), ["libcapstan_client.so.0"])
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", section)
        self.assertIn("libsodium.so.23", needed)
        self.assertEqual([name for name in needed if not re.fullmatch(NEEDED, name)], [])
        # In the wheel this folder has the libraries that a bare system lacks; next to an installed library there is none.
        self.assertEqual(re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", section), ["$ORIGIN/lib"])

    def test_the_shared_library_shows_its_interface_alone(self):
        with open(installed("include", "capstan", "capstan.h"), encoding="utf-8") as file:
            declared = set(re.findall(r"^[a-z][\w *]*?(capstan_\w+)\(", file.read(), re.M))
        self.assertGreater(len(declared), 10)
        shown = {}
        for line in run("nm", "-DC", "--defined-only", installed("lib", "libcapstan_client.so")).splitlines():
            name, _, version = line.split(" ", 2)[2].partition("@@")
            if line.split(" ", 2)[1] != "A":
                shown.setdefault(version, set()).add(re.sub(r"\(.*", "", name))
        self.assertEqual(shown, {"CAPSTAN_0": declared, "CAPSTAN_CXX_0": CXX_NAMES})


class EmbedTest(harness.JobTest):
    known = None

    def launch_own(self, workers, *arguments, language="cpp", run="run", steps=STEPS):
        return self.launch(example(language, "job.toml"), "--set", f"cluster.workers={workers}", "--set", f"job.steps={steps}",
                           "--set", f"limits.lease={harness.patient(3)}", "--set", f"limits.join={harness.patient(30)}",
                           *arguments, run=run)

    @staticmethod
    def address(launch):
        return harness.own_address(launch)

    def wait_for_steps(self, count, run="run"):
        recovery.poll(lambda: recovery.count_records(self.path(run)) >= count, f"{count} steps")

    @contextlib.contextmanager
    def gate(self):
        held = gate.Gate(self.path("gate"), HELD_AT)
        try:
            yield held
        finally:
            held.close()

    def paced(self, launch, name):
        return harness.Process("/usr/bin/env", f"{gate.VARIABLE}={self.path('gate')}", paced_linear(), self.address(launch),
                               name)

    def assert_done(self, launch, *workers):
        for worker in workers:
            self.assertEqual(worker.wait(), 0, worker.output)
        self.assertEqual(launch.wait(), 0, launch.output)

    def digest(self, run="run"):
        return hashlib.sha256(self.weights(run)[1]).hexdigest()

    @classmethod
    def undisturbed(cls, test):
        """Returns the digest of the C++ program's job, which the first test that asks for it runs."""
        cls.known = cls.known or test.trained(1, run="undisturbed")
        return cls.known

    def trained(self, workers, language="cpp", run="run"):
        program = linear() if language == "cpp" else logistic()
        with self.launch_own(workers, language=language, run=run) as launch:
            address = self.address(launch)
            started = [harness.Process(program, address, f"w{i}") for i in range(workers)]
            try:
                self.assert_done(launch, *started)
            finally:
                for worker in started:
                    worker.__exit__()
        return self.digest(run)

    def test_programs_are_built_by_cmake_and_pkg_config_shared_and_static(self):
        for language in ("c", "cpp"):
            folder = self.path(language)
            programs = [build_by_cmake(language, "capstan::client_static", folder),
                        build_by_pkg_config(language, "capstan", self.path(language + "-shared")),
                        build_by_pkg_config(language, "capstan-static", self.path(language + "-static"))]
            for number, program in enumerate(programs):
                name = f"{language}{number}"
                with self.subTest(name), self.launch_own(1, language=language, run=name, steps=20) as launch, \
                        harness.Process(program, self.address(launch), "w") as worker:
                    self.assert_done(launch, worker)
                self.assertEqual("libcapstan_client" in run("readelf", "-d", program), number == 1)

    def test_two_workers_end_with_the_bits_of_one(self):
        for language in ("c", "cpp"):
            self.assertEqual(*(self.trained(workers, language, f"{language}{workers}") for workers in (1, 2)))

    def test_launch_starts_them_with_address_and_name_in_the_environment(self):
        for language, program in (("c", logistic()), ("cpp", linear())):
            with self.subTest(language), self.launch_own(2, "--", program, language=language, run=language, steps=20) as launch:
                self.assertEqual(launch.wait(), 0, launch.output)
                self.assertEqual(len(self.metrics(language)), 20)
            self.assertIn("usage: ", subprocess.run([program], capture_output=True, text=True, check=False).stderr)

    def test_a_worker_that_is_killed_and_another_one_change_no_bit(self):
        undisturbed = self.undisturbed(self)
        with self.gate() as held, self.launch_own(2, run="killed") as launch, self.paced(launch, "w0") as stays, \
                self.paced(launch, "w1") as dies:
            self.wait_for_steps(KILLED_AT, "killed")
            harness.kill(dies.pid)
            self.assertEqual(dies.wait(), -signal.SIGKILL)
            with self.paced(launch, "w2") as comes:
                launch.wait_for_line('"w2" joined')
                held.open()
                self.assert_done(launch, stays, comes)
        self.assertEqual(self.digest("killed"), undisturbed)

    def test_a_server_that_is_killed_changes_no_bit(self):
        undisturbed = self.undisturbed(self)
        with self.gate() as held, self.launch_own(1, "--set", "snapshot.every_steps=100", run="killed") as launch, \
                self.paced(launch, "w") as worker:
            self.wait_for_steps(KILLED_AT, "killed")
            harness.kill(self.pids("killed")["server-0"])
            held.open()
            self.assert_done(launch, worker)
        self.assertGreater(max(step["generation"] for step in self.metrics("killed")), 1)
        self.assertEqual(self.digest("killed"), undisturbed)

    def test_a_job_that_was_stopped_goes_on(self):
        undisturbed = self.undisturbed(self)
        fixed = f"cluster.coordinator={harness.free_address()}"  # where the worker waits for it
        with self.gate() as held, self.launch_own(1, "--set", fixed, run="stopped") as launch, \
                self.paced(launch, "w") as worker:
            self.wait_for_steps(KILLED_AT, "stopped")
            harness.kill(launch.pid, signal.SIGINT)
            self.assertEqual(launch.wait(), 130, launch.output)
            self.assertLess(len(self.metrics("stopped")), STEPS)
            held.open()
            with harness.Process(harness.program("capstan"), "launch", "--resume", "--run-dir", self.path("stopped"),
                                 "--set", fixed) as resumed:
                self.assert_done(resumed, worker)
        self.assertEqual(self.digest("stopped"), undisturbed)

    def test_programs_on_another_machine_with_keys_end_with_the_same_bits(self):
        two_machines.need(self)
        for language, program in (("c", logistic()), ("cpp", linear())):
            with self.subTest(language):
                known = self.trained(1, language, f"{language}-here")
                self.assertEqual(self.trained_with_keys(language, program), known)

    def trained_with_keys(self, language, program):
        """Runs the job with two workers on a machine where none of its servers is. Returns the digest of its weights."""
        folder = language + "-machines"
        with two_machines.TwoMachines(self.path(folder)) as machines:
            processes = machines.job(example(language, "job.toml"), "cluster.workers=2", f"job.steps={STEPS}")
            stranger = machines.program("w0", program, key_file=None)
            self.assertEqual(stranger.wait(), 1, stranger.output)
            self.assertIn("key", stranger.output)
            for process in [*processes, machines.program("w0", program), machines.program("w1", program)]:
                self.assertEqual(process.wait(), 0, process.output)
        return self.digest(os.path.join(folder, two_machines.HEAD, "run"))

    def test_a_worker_with_another_catalog_is_refused_and_told_the_tensor(self):
        with self.launch_own(2, steps=20) as launch, harness.Process(linear(), self.address(launch), "w0") as first:
            launch.wait_for_line('"w0" joined')
            with harness.Process(logistic(), self.address(launch), "w1") as other:
                self.assertEqual(other.wait(), 1)
                self.assertRegex(other.output, "logistic: refused: .*this worker declares bias .*, the job has bias")
            with harness.Process(linear(), self.address(launch), "w1") as second:
                self.assert_done(launch, first, second)

    def test_capstan_worker_says_that_it_has_no_model_for_the_job(self):
        with self.launch_own(1, steps=20) as launch:
            with harness.Process(harness.program("capstan-worker"), "--coordinator", self.address(launch)) as ours:
                self.assertEqual(ours.wait(), 1)
                self.assertIn('model.kind = "client"', ours.output)
                self.assertIn("start your own program", ours.output)
            with harness.Process(linear(), self.address(launch), "w") as worker:
                self.assert_done(launch, worker)
        self.assertEqual(set(self.pids()), {"coordinator", "server-0"})


if __name__ == "__main__":
    skips.main()
