"""Stages of a run: commands one after the other, and builds in the background."""
import contextlib
import ctypes
import os
import signal
import subprocess
import time

from machine import CORES, ROOT, build_folder

SECONDS_TO_END = 10  # for a command that is interrupted
SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP  # they end a run
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)
# A signal to the shell ends the build's child processes too, because the shell passes SIGTERM on to its process group until
# the build has ended: a shell that was just forked may lose a signal.
BUILD = """\
trap 'trap "" TERM; build=$!; [ "$build" ] || exit 143
  kill 0; { while sleep 1; do kill 0; done; } & wait $build; kill -KILL $!; exit 143' TERM
{ cmake --preset "$1" && cmake --build --preset "$1" "-j$2" --target "$3"; } &
wait $!"""


class Interrupted(BaseException):
    def __init__(self, number):
        super().__init__(number)
        self.number = number


def interrupt(number, _):
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)  # the first signal is being handled
    raise Interrupted(number)


def obey_signals():
    """Makes the signals that end a run raise Interrupted. A signal that the parent ignored, as nohup does, stays ignored."""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)


@contextlib.contextmanager
def signals_later():
    """Signals that arrive within are handled at its end. A process that is started within calls signals_now()."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signals_now()


def signals_now():
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def run(command):
    """Runs a command and returns its exit code. If this process is interrupted, so is the command's process group."""
    child = None
    try:
        with signals_later():  # or a process could be started, and nobody would know it
            child = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=signals_now)
        return child.wait()
    except BaseException:
        if child:
            end_group(child, signal.SIGINT)
        raise


def end_group(child, number):
    """If the child still runs, ends its process group: with the signal `number` or, after SECONDS_TO_END, by force."""
    if child.poll() is None:
        os.killpg(child.pid, number)
        try:
            child.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def yield_to_others():
    """Makes the calling process run only when no other process wants to. It gets a session of its own, because Linux shares
    time by session. It ends with its parent."""
    os.setsid()
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signals_now()
    os.nice(19)
    try:
        with open("/proc/self/autogroup", "w", encoding="ascii") as file:
            file.write("19")
    except OSError:
        pass  # without autogroups the kernel shares time by process
    try:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    except OSError:
        pass


class Stages:
    """Runs commands one after the other, and records their seconds and results."""

    def __init__(self):
        self.began = time.monotonic()
        self.rows = []

    def seconds(self):
        """Returns how long all has taken so far."""
        return time.monotonic() - self.began

    def run(self, name, command):
        print(f"\n=== {name}", flush=True)
        began = time.monotonic()
        code = run(command)
        self.note(name, began, code)
        return code

    def note(self, name, began, code):
        self.rows.append((name, time.monotonic() - began, "ok" if code == 0 else f"FAILED ({code})"))

    def call_unsteady(self, name):
        self.rows = [(row, seconds, "unsteady" if row == name else how) for row, seconds, how in self.rows]

    def failed(self):
        return [name for name, _, how in self.rows if how.startswith("FAILED")]

    def print(self):
        print(f"\n{'stage':28} {'seconds':>8}  result")
        for name, seconds, how in self.rows:
            print(f"{name:28} {seconds:8.0f}  {how}")
        print(f"{'total':28} {self.seconds():8.0f}")


class BackgroundBuild:
    """A build that runs next to the tests. `wait` prints the build's output."""

    def __init__(self, preset, target):
        self.preset = preset
        os.makedirs(build_folder(preset), exist_ok=True)
        self.log = os.path.join(build_folder(preset), "background-build.log")
        self.child = None
        try:
            with open(self.log, "wb") as log, signals_later():
                self.child = subprocess.Popen(["sh", "-c", BUILD, "sh", preset, str(CORES), target], cwd=ROOT, stdout=log,
                                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, preexec_fn=yield_to_others)
        except BaseException:
            self.stop()
            raise

    def wait(self, stages):
        name = f"{self.preset}: rest of the build"
        print(f"\n=== {name}", flush=True)
        began = time.monotonic()
        code = self.child.wait()
        with open(self.log, encoding="utf-8", errors="replace") as log:
            lines = log.read().splitlines()
        print("\n".join(lines if code else lines[-3:]), flush=True)
        stages.note(name, began, code)
        return code == 0

    def stop(self):
        if self.child:
            end_group(self.child, signal.SIGTERM)
