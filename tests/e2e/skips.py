"""Tests that cannot run on every machine. A skip is visible: ctest gets exit code 77, and with CI=true a skip is a failure."""
import importlib.util
import os
import sys

import harness

_left_out = []


def skip(test, reason):
    """Skips this test; with CI=true, fails it."""
    if os.environ.get("CI") == "true":
        test.fail(f"nothing may be left out here: {reason}")
    _left_out.append(reason)
    test.skipTest(reason)


def lack_of(package):
    """Returns why a test that imports this package cannot run; None if it can."""
    return None if importlib.util.find_spec(package) else f"{package} is not there; install python3-{package}"


def need(test, package):
    if reason := lack_of(package):
        skip(test, reason)


def main(package=None, lack=None):
    """Runs the tests of a file as harness.main() does. `package`: all of them import it, so without it none is run. `lack`:
    why none can run, for another reason."""
    if reason := lack or (package and lack_of(package)):
        print(f"SKIPPED: {reason}", file=sys.stderr)
        sys.exit(1 if os.environ.get("CI") == "true" else 77)
    try:
        harness.main()
    except SystemExit as end:
        if end.code or not _left_out:
            raise
    for reason in _left_out:
        print(f"SKIPPED: {reason}", file=sys.stderr)
    sys.exit(77)
