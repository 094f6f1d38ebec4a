"""Each alert fires on a real job that has the fault it is for, and is silent before. Waits (`for:`) and the ranges of recorded
rates are shortened; a small disk and a control group need root."""
import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field

import disk_full_test
import harness
import prometheus_server
import recovery
import skips

HURRY = 60  # by how much waits are shorter than in the rules


@dataclass
class Fault:
    """What is done to a job, and the alerts that fire then. `settings`: of the job; `options`: of its launch."""
    what: str
    alerts: set
    cause: str  # name of the method
    settings: list = field(default_factory=list)
    options: list = field(default_factory=list)


FAULTS = [
    Fault("a server stands still", {"CapstanServerMissing", "CapstanExporterDown", "CapstanJobStalled"}, "stop_a_server",
          [f"limits.stall={harness.patient(40)}"]),
    Fault("a worker stands still", {"CapstanWorkersMissing"}, "stop_a_worker"),
    Fault("a worker is slow", {"CapstanStraggler"}, "slow_a_worker",
          ["model.hidden=[512, 512]", "job.global_batch=192"]),  # so that it is stopped while it computes, and not while it waits
    Fault("a worker is slow in a job that waits for nobody", {"CapstanSlotsApart"}, "slow_a_worker", ['job.mode="async"']),
    Fault("a server dies again and again", {"CapstanRecoveringRepeatedly", "CapstanRestartingRepeatedly"}, "kill_a_server",
          ["snapshot.every_steps=5"]),
    Fault("the disk of the run directory fills", {"CapstanDiskNearlyFull"}, "fill_the_run_directory"),
    Fault("the disk of the snapshots fills", {"CapstanSnapshotFailing", "CapstanSnapshotTooOld"}, "fill_the_snapshots",
          ["snapshot.every_seconds=1"]),
    Fault("every gradient is infinite", {"CapstanNonFiniteSteps", "CapstanLossScaleCollapsed"}, "wait",
          ['worker.precision="fp16"', 'job.on_nonfinite="skip"', "optimizer.lr=1e6", "optimizer.clip_norm=0"]),
    Fault("every gradient is infinite, and each slot decides by itself", {"CapstanNonFiniteSteps", "CapstanLossScaleCollapsed"}, "wait",
          ['job.mode="async"', 'worker.precision="fp16"', 'job.on_nonfinite="skip"', "optimizer.lr=1e6", "optimizer.clip_norm=0"]),
    Fault("servers listen for other machines without keys", {"CapstanPlaintextNetwork"}, "wait",
          ['cluster.listen="0.0.0.0:0"', f'cluster.advertise="{harness.HOST}"', f'cluster.coordinator="{harness.HOST}:0"'],
          ["--allow-plaintext"]),
    Fault("a control group leaves a worker no memory", {"CapstanMemoryNearlyFull"}, "take_the_memory"),
]
# The alerts of faults that are there from a job's beginning: they have no quiet time before. Jobs with other faults show that a
# sound job does not fire them.
FROM_THE_BEGINNING = {name for fault in FAULTS if fault.cause == "wait" for name in fault.alerts}


def alert_names():
    with open(prometheus_server.RULES[1], encoding="utf-8") as file:
        return re.findall(r"- alert: (\w+)", file.read())


def resident_bytes(pid):
    with open(f"/proc/{int(pid)}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class AlertsTest(disk_full_test.SmallDiskTest):
    def hurried_rules(self):
        """Returns copies of the rules with short waits. The ranges of alerts, which count events, stay as long as they are."""
        paths = []
        for path, ranges in zip(prometheus_server.RULES, (True, False)):
            with open(path, encoding="utf-8") as file:
                text = prometheus_server.hurried(file.read(), HURRY, ranges)
            paths.append(self.write(os.path.basename(path), text))
        return paths

    def run_fault(self, fault):
        self.prepare(fault)
        words = [word for setting in ("cluster.workers=3", "job.slots=3", *fault.settings) for word in ("--set", setting)]
        with self.launch(self.job_file(steps=harness.ENDLESS), "--max-restarts", "100", *fault.options, *words) as launch:
            launch.wait_for_line("step ")
            coordinator = self.endpoints()["metrics"]["coordinator"]
            with prometheus_server.Prometheus(self.path("prometheus"), prometheus_server.discovery(coordinator),
                                              self.hurried_rules()) as prometheus:
                recovery.poll(lambda: len(prometheus.query("up == 1")) == 6, "a scrape of every process")
                if fault.cause != "wait":
                    recovery.poll(lambda: prometheus.query("job:capstan_job_steps:rate1m > 0"), "recorded rules")
                    self.assertEqual(prometheus.firing() & (fault.alerts | FROM_THE_BEGINNING), set(), "fires without its fault")
                with getattr(self, fault.cause)(launch):
                    recovery.poll(lambda: fault.alerts <= prometheus.firing() or launch.closed,
                                  f"{sorted(fault.alerts)}: {fault.what}")
                self.assertFalse(launch.closed, launch.output)

    def prepare(self, fault):
        os.makedirs(self.path("prometheus"))
        if fault.cause == "fill_the_run_directory":
            self.mount(self.path("run"), "64m")
        if fault.cause == "fill_the_snapshots":
            self.mount(self.path("run", "snapshots"), "16m")

    @contextlib.contextmanager
    def wait(self, _):
        yield

    @contextlib.contextmanager
    def stop(self, name):
        pid = self.pids()[name]
        harness.kill(pid, signal.SIGSTOP)
        yield
        with contextlib.suppress(ProcessLookupError):
            harness.kill(pid, signal.SIGCONT)

    def stop_a_server(self, _):
        return self.stop("server-0")

    def stop_a_worker(self, _):
        return self.stop("worker-1")

    @contextlib.contextmanager
    def repeated(self, work):
        """Calls `work(ended)` on a thread, again and again, until the block ends."""
        ended = threading.Event()

        def run():
            while not ended.is_set():
                work(ended)
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def slow_a_worker(self, _):
        pid = self.pids()["worker-1"]
        return harness.slowed(lambda: [pid], times=30)  # on a loaded machine the other workers are several times slower, too

    def kill_a_server(self, launch):
        def one_turn(ended):
            began = len(launch.lines)
            with contextlib.suppress(ProcessLookupError):
                harness.kill(self.pids()["server-0"])
            recovery.poll(lambda: ended.is_set() or launch.closed or any("every shard starts from" in line for line in launch.lines[began:]),
                          "a recovery")
            self.wait_for_steps(launch, 1)
        return self.repeated(one_turn)

    def fill_the_run_directory(self, _):
        return self.repeated(lambda ended: (self.fill(self.path("run")), ended.wait(0.1)))

    def fill_the_snapshots(self, _):
        return self.repeated(lambda ended: (self.fill(self.path("run", "snapshots")), ended.wait(0.02)))

    @contextlib.contextmanager
    def take_the_memory(self, _):
        group = f"/sys/fs/cgroup/memory/capstan-e2e-{os.getpid()}"
        limit = "memory.limit_in_bytes"
        if not os.path.isdir("/sys/fs/cgroup/memory"):
            group, limit = f"/sys/fs/cgroup/capstan-e2e-{os.getpid()}", "memory.max"
        pid = self.pids()["worker-1"]
        with open("/proc/self/cgroup", encoding="ascii") as file:
            before = os.path.dirname(group) + next(line.rstrip("\n").split(":", 2)[2] for line in file
                                                   if ":memory:" in line or limit == "memory.max")
        try:
            os.mkdir(group)
        except OSError as error:
            skips.skip(self, f"no control group can be made: {error}")
        try:
            with open(f"{group}/cgroup.procs", "w", encoding="ascii") as file:
                file.write(str(int(pid)))
            with open(f"{group}/{limit}", "w", encoding="ascii") as file:
                file.write(str(resident_bytes(pid) // 16))  # what it has taken stays where it was counted
            yield
        finally:
            with contextlib.suppress(OSError), open(f"{before}/cgroup.procs", "w", encoding="ascii") as file:
                file.write(str(int(pid)))
            recovery.poll(lambda: subprocess.run(["rmdir", group], check=False, capture_output=True).returncode == 0, "an empty group")

    def test_there_is_a_fault_for_every_alert(self):
        self.assertEqual({name for fault in FAULTS for name in fault.alerts}, set(alert_names()))


def make_test(fault):
    return lambda self: self.run_fault(fault)


for one in FAULTS:
    setattr(AlertsTest, "test_" + re.sub(r"\W", "_", one.what), make_test(one))


if __name__ == "__main__":
    prometheus_server.exit_without_prometheus()
    if os.geteuid() != 0:
        print("SKIPPED: mounting a small disk takes root; run it as root")
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    skips.main()
