"""Facts about this machine and this clone for a run of the tests."""
import functools
import hashlib
import json
import math
import os
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CORES = len(os.sched_getaffinity(0))
# The seconds that measure_patience's arithmetic takes on the machine for which the tests' limits were written.
USUAL_SECONDS = 0.1
PATIENCE_MAX = 5
LIMIT_BY_DEFAULT = 900  # seconds for one test of the default tier


def build_folder(preset):
    return os.path.join(ROOT, "build", preset)


def seconds_of_arithmetic():
    """Returns the processor time of a fixed computation. Other processes do not lengthen it much."""
    best = math.inf
    for _ in range(5):
        began = time.process_time()
        value = b"capstan"
        for _ in range(200_000):
            value = hashlib.sha256(value).digest()
        best = min(best, time.process_time() - began)
    return best


def patience_of(seconds, load):
    """Returns the factor for time limits of tests. `load`: how many processes want to run, as os.getloadavg counts them."""
    slower = seconds / USUAL_SECONDS * (2 if CORES == 1 else 1) + load / CORES
    return min(PATIENCE_MAX, max(1, math.ceil(slower - 0.5)))


def measure_patience():
    return patience_of(seconds_of_arithmetic(), os.getloadavg()[0])


def seed_of_commit():
    """Returns one seed for all random tests of a commit, so that a failed run can be repeated; 0 without git."""
    try:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return 0  # no git
    return int(commit[:8], 16) if commit else 0


@functools.cache
def test_presets():
    with open(os.path.join(ROOT, "CMakePresets.json"), encoding="utf-8") as file:
        return {preset["name"]: preset for preset in json.load(file)["testPresets"]}


def limit_of_a_test(preset):
    """Returns the limit of one test in seconds: the preset's, which allows for its sanitizer, times the patience.

    In the default tier the limit is at most LIMIT_BY_DEFAULT times the patience.
    """
    limit = test_presets()[preset]["execution"]["timeout"]
    if os.environ.get("CAPSTAN_TEST_TIER") == "default":
        limit = min(limit, LIMIT_BY_DEFAULT)
    return limit * int(os.environ["CAPSTAN_TEST_PATIENCE"])
