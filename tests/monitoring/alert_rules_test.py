#!/usr/bin/python3
"""The files under monitoring/ that Prometheus and Grafana read, and what belongs to them: promtool accepts the rules and their
unit tests, every alert has a test and a runbook, the dashboard is whole, and the reference of the metrics is up to date.

Exit code 0 passed, 1 failed, 77 promtool is missing (with CI=true in the environment: 1).
"""
import json
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import prometheus_server
from prometheus_server import MONITORING, RULES

ROOT = os.path.dirname(MONITORING)
FOLDER = os.path.join(MONITORING, "prometheus")
RUNBOOKS = os.path.join(ROOT, "docs", "runbooks")
DASHBOARD = os.path.join(MONITORING, "grafana", "dashboards", "capstan.json")
PANELS = {"row", "stat", "gauge", "timeseries", "heatmap", "table"}
COLUMNS = 24  # of Grafana's grid


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def promtool(*arguments):
    done = subprocess.run(["promtool", *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def alerts():
    """Returns alert -> text of its rule."""
    parts = re.split(r"- alert: (\w+)\n", read(RULES[1]))
    return dict(zip(parts[1::2], parts[2::2]))


def metrics():
    listed = subprocess.run([os.path.join(ROOT, "scripts", "metrics-reference"), "--json"], check=True, capture_output=True, text=True)
    return json.loads(listed.stdout)


def names_in(expressions):
    """Returns the names of series in these expressions, without the recorded ones, and as the families are called."""
    names = set(re.findall(r"(?<![:\w])(?:capstan|process)_\w+(?!:)\b", expressions))
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}


class RulesTest(unittest.TestCase):
    def test_promtool_accepts_rules_and_the_example(self):
        code, said = promtool("check", "rules", *RULES)
        self.assertEqual(code, 0, said)
        code, said = promtool("check", "config", os.path.join(FOLDER, "prometheus.yml"))
        self.assertEqual(code, 0, said)

    def test_the_rules_pass_their_tests(self):
        code, said = promtool("test", "rules", "alert_rules_test.yml")
        self.assertEqual(code, 0, said)

    def test_every_alert_has_a_test_that_fires_it(self):
        tested = re.findall(r"alertname: (\w+)\n\s+exp_alerts:\n", read(FOLDER, "alert_rules_test.yml"))
        self.assertEqual(set(alerts()), set(tested))

    def test_every_alert_has_a_runbook_and_every_runbook_an_alert(self):
        named = {alert: re.search(r"runbook: docs/runbooks/(\S+)\.md\n", rule + "\n")[1] for alert, rule in alerts().items()}
        pages = {re.search(r"^Alert `(\w+)`\.$", read(RUNBOOKS, name), re.M)[1]: name.removesuffix(".md")
                 for name in os.listdir(RUNBOOKS) if name != "README.md"}
        self.assertEqual(named, pages)
        listed = re.findall(r"^\| `(\w+)` \| \[.*\]\((.*)\.md\) \|$", read(RUNBOOKS, "README.md"), re.M)
        self.assertEqual(dict(listed), pages)

    def test_a_runbook_says_what_it_means_and_what_to_do(self):
        for name in os.listdir(RUNBOOKS):
            if name != "README.md":
                headings = re.findall(r"^## (.*)$", read(RUNBOOKS, name), re.M)
                self.assertEqual(headings, ["Meaning", "Impact", "How to look", "What to do"], name)

    def test_rules_and_dashboard_name_only_metrics_that_exist(self):
        known = {family["name"] for family in metrics()}
        for path in (*RULES, DASHBOARD, *(os.path.join(RUNBOOKS, name) for name in os.listdir(RUNBOOKS))):
            self.assertEqual(names_in(read(path)) - known, set(), path)


class DashboardTest(unittest.TestCase):
    def setUp(self):
        self.dashboard = json.loads(read(DASHBOARD))
        self.panels = self.dashboard["panels"]

    def test_panels_are_of_known_types_and_have_ids_and_titles_of_their_own(self):
        self.assertLessEqual({panel["type"] for panel in self.panels}, PANELS)
        for key in ("id", "title"):
            values = [panel[key] for panel in self.panels]
            self.assertEqual(len(values), len(set(values)), key)

    def test_panels_lie_within_the_grid_and_do_not_overlap(self):
        taken = {}
        for panel in self.panels:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], COLUMNS, panel["title"])
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    self.assertEqual(taken.setdefault((x, y), panel["title"]), panel["title"])

    def test_every_query_takes_its_source_and_its_jobs_from_the_variables(self):
        source = {"type": "prometheus", "uid": "${datasource}"}
        variables = {one["name"]: one for one in self.dashboard["templating"]["list"]}
        self.assertEqual(variables["datasource"]["type"], "datasource")
        self.assertEqual(variables["job"]["datasource"], source)
        for panel in self.panels:
            if panel["type"] == "row":
                continue
            self.assertEqual(panel["datasource"], source, panel["title"])
            self.assertTrue(panel["targets"], panel["title"])
            refs = [target["refId"] for target in panel["targets"]]
            self.assertEqual(len(refs), len(set(refs)), panel["title"])
            for target in panel["targets"]:
                self.assertEqual(target["datasource"], source, panel["title"])
                self.assertIn('job=~"$job"', target["expr"], panel["title"])

    def test_recorded_series_that_it_shows_are_recorded(self):
        recorded = set(re.findall(r"- record: (\S+)", read(RULES[0])))
        for text in (read(DASHBOARD), read(RULES[1])):
            self.assertLessEqual(set(re.findall(r"\b(?:job|job_\w+):capstan_\w+:\w+", text)), recorded)


class ReferenceTest(unittest.TestCase):
    def test_the_page_of_the_metrics_is_what_the_script_writes(self):
        page = subprocess.run([os.path.join(ROOT, "scripts", "metrics-reference")], check=True, capture_output=True, text=True).stdout
        self.assertEqual(page, read(ROOT, "docs", "reference", "metrics.md"),
                         "run: scripts/metrics-reference > docs/reference/metrics.md")

    def test_no_label_of_a_metric_hides_one_that_prometheus_gives_the_process(self):
        for family in metrics():
            self.assertEqual(set(family["labels"]) & {"job", "role", "name", "instance"}, set(), family["name"])


if __name__ == "__main__":
    prometheus_server.exit_without_prometheus()
    unittest.main(verbosity=2)
