"""Two running jobs fill each panel of the Grafana dashboard and export the metrics of the reference, no others."""
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import urllib.request

import harness
import prometheus_server

ROOT = os.path.dirname(prometheus_server.MONITORING)
DASHBOARD = os.path.join(prometheus_server.MONITORING, "grafana", "dashboards", "capstan.json")
REFERENCE = os.path.join(ROOT, "scripts", "metrics-reference")
JOBS = {"sync": ("snapshot.every_seconds=1", "job.eval_every=100"),
        "async": ('job.mode="async"', "snapshot.every_seconds=1", "job.eval_every=100")}
# Panels that only jobs without global steps fill. All others have to be filled by the synchronous job as well.
ONLY_ASYNC = {"Staleness of gradients": "with global steps every gradient is of the newest version",
              "Slowest slot behind the fastest": "with global steps no slot is ahead"}
# Metrics that appear only where a job file asks for them, or after an event that these jobs need not have.
CONDITIONAL = {"capstan_job_slot_skew_steps", "capstan_job_staleness_limit_steps", "capstan_job_gradient_norm",
               "capstan_job_loss_scale", "capstan_snapshot_interval_steps", "capstan_job_validation_loss"}
SERIES_MAX = 400  # of one process


def targets():
    """Yields panel and expression of each target of the dashboard."""
    with open(DASHBOARD, encoding="utf-8") as file:
        for panel in json.load(file)["panels"]:
            for target in panel.get("targets", []):
                yield panel["title"], target["expr"]


def parse(text):
    """Returns family -> (type, help, labels that its samples have)."""
    families, kinds = {}, {}
    for line in text.splitlines():
        words = line.split(" ", 3)
        if line.startswith("# HELP "):
            families[words[2]] = [None, words[3], set()]
        elif line.startswith("# TYPE "):
            families[words[2]][0] = kinds[words[2]] = words[3]
        else:
            name, _, labels = line.rsplit(" ", 1)[0].partition("{")
            family = next(name.removesuffix(end) for end in ("", "_bucket", "_sum", "_count") if name.removesuffix(end) in kinds)
            families[family][2] |= {pair.split("=")[0] for pair in labels.rstrip("}").split(",") if "=" in pair} - {"le"}
    return families


class DashboardTest(harness.JobTest):
    @contextlib.contextmanager
    def jobs(self):
        """Runs both jobs; gives name -> launch, and the addresses of their coordinators' metrics."""
        with contextlib.ExitStack() as stack:
            launches = {}
            for name, settings in JOBS.items():
                words = [word for setting in (f'job.name="{name}"', *settings) for word in ("--set", setting)]
                launches[name] = stack.enter_context(self.launch(self.job_file(steps=harness.ENDLESS), *words, run=name))
            for launch in launches.values():
                launch.wait_for_line("snapshot of version ")
            slowed = stack.enter_context(contextlib.ExitStack())
            for name in launches:
                slowed.enter_context(self.slow_workers(name))
            yield launches, [self.endpoints(name)["metrics"]["coordinator"] for name in launches]
            slowed.close()
            for launch in launches.values():
                harness.kill(launch.pid, signal.SIGINT)
            for launch in launches.values():
                self.assertEqual(launch.wait(), 130, launch.output)

    def assert_filled(self, prometheus, jobs, chosen):
        """Waits until all these targets have a finite value for the jobs."""
        def empty():
            left = []
            for panel, expression in chosen:
                concrete = expression.replace("$job", jobs).replace("$__rate_interval", "10s")
                if not any(math.isfinite(value) for _, value in prometheus.query(concrete)):
                    left.append(f"{panel}: {concrete}")
            return left
        seen = []

        def filled():
            seen[:] = empty()
            return not seen
        try:
            harness.poll(filled, "data in every panel", harness.patient(60))
        except AssertionError as error:
            raise AssertionError(f"{error}; no data in:\n" + "\n".join(seen)) from None

    def check_reference(self, addresses):
        listed = json.loads(subprocess.run([REFERENCE, "--json"], check=True, capture_output=True, text=True).stdout)
        for address in addresses:
            for process, metrics in self.processes_of(address):
                with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=harness.DEADLINE) as answer:
                    text = answer.read().decode()
                role = process.split("-")[0]
                wanted = {family["name"]: [family["type"], family["help"], set(family["labels"])]
                          for family in listed if role in family["processes"]}
                found = parse(text)
                for name in CONDITIONAL - set(found):
                    wanted.pop(name, None)
                self.assertEqual(found, wanted, f"{process}: the metrics differ from scripts/metrics-reference")
                series = sum(not line.startswith("#") for line in text.splitlines())
                self.assertLess(series, SERIES_MAX, process)

    def processes_of(self, coordinator):
        for name in JOBS:
            metrics = self.endpoints(name)["metrics"]
            if metrics["coordinator"] == coordinator:
                yield from metrics.items()

    def test_every_panel_has_data_of_running_jobs(self):
        with self.jobs() as (_, addresses), \
                prometheus_server.Prometheus(self.folder, prometheus_server.discovery(*addresses), prometheus_server.RULES) as prometheus:
            every = list(targets())
            self.assert_filled(prometheus, "sync|async", every)
            self.assert_filled(prometheus, "sync", [(panel, expression) for panel, expression in every if panel not in ONLY_ASYNC])
            self.assertEqual(set(ONLY_ASYNC) - {panel for panel, _ in every}, set(), "there are no such panels")
            self.check_reference(addresses)
            names = {labels["job"] for labels, _ in prometheus.query("capstan_job_info")}
            self.assertEqual(names, set(JOBS), "two jobs cannot be told apart")


if __name__ == "__main__":
    prometheus_server.exit_without_prometheus()
    harness.main()
