"""Debian's prometheus as a child process: it scrapes jobs, evaluates rules, and is asked for series and alerts."""
import json
import os
import re
import shutil
import sys
import urllib.error
import urllib.parse
import urllib.request

import harness

MONITORING = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "monitoring"))
RULES = [os.path.join(MONITORING, "prometheus", name) for name in ("recording_rules.yml", "alert_rules.yml")]
UNITS = {"s": 1, "m": 60, "h": 3600}


def exit_without_prometheus(*more):
    """Ends this process if a program is missing: as a skipped test or, in continuous integration, as a failed one."""
    missing = [tool for tool in ("prometheus", "promtool", *more) if not shutil.which(tool)]
    if missing:
        ci = os.environ.get("CI") == "true"
        print(f"{'FAILED' if ci else 'SKIPPED'}: {' and '.join(missing)} not found; apt-get install prometheus", file=sys.stderr)
        sys.exit(1 if ci else 77)


def hurried(text, factor, ranges):
    """Returns rules whose `for:` and, with `ranges`, whose ranges are shorter by the factor. A range keeps the ten seconds that a
    rate needs."""
    def shorter(match, least):
        return f"{match[1]}{max(least, int(match[2]) * UNITS[match[3]] // factor)}s{match[4]}"
    text = re.sub(r"(for: )(\d+)([smh])($)", lambda match: shorter(match, 1), text, flags=re.M)
    return re.sub(r"(\[)(\d+)([smh])(\])", lambda match: shorter(match, 10), text) if ranges else text


class Prometheus(harness.Process):
    """Scrapes once a second the processes that `found`, parts of a scrape configuration, names. Ended at the end of its with
    block."""

    def __init__(self, folder, found, rules=()):
        config = os.path.join(folder, "prometheus.yml")
        with open(config, "w", encoding="utf-8") as file:  # JSON is YAML
            json.dump({"global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
                       "rule_files": list(rules), "scrape_configs": [{"job_name": "capstan", **found}]}, file)
        address = harness.free_address()
        self.url = f"http://{address}"
        super().__init__("/usr/bin/setpriv", "--pdeathsig", "KILL", "--", "prometheus", f"--config.file={config}",
                         f"--storage.tsdb.path={folder}/data", f"--web.listen-address={address}", "--log.level=warn", cwd=folder)

    def get(self, path, **parameters):
        """Returns the data of an answer; None while prometheus starts."""
        if self.closed:
            raise AssertionError(f"prometheus has ended:\n{self.output}")
        try:
            url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
            with urllib.request.urlopen(url, timeout=harness.DEADLINE) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == 503:
                return None
            raise AssertionError(f"prometheus refuses {parameters}: {error.read().decode()}") from None
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    def query(self, expression):
        """Returns pairs of labels and value."""
        data = self.get("query", query=expression)
        return [(row["metric"], float(row["value"][1])) for row in data["result"]] if data else []

    def firing(self):
        """Returns the names of the alerts that fire."""
        data = self.get("alerts")
        return {alert["labels"]["alertname"] for alert in data["alerts"] if alert["state"] == "firing"} if data else set()


def discovery(*coordinators):
    """Returns the scrape configuration for the jobs of these coordinators, given by the addresses of their metrics."""
    return {"http_sd_configs": [{"url": f"http://{address}/http_sd", "refresh_interval": "1s"} for address in coordinators]}
