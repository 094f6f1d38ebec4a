"""Tests that cannot run on every machine. A skip is visible: ctest gets exit code 77, and with CI=true a skip is a failure."""
import importlib.util
import os
import sys

import harness

_left_out = []


def skip(test, reason):
    """Ends this test."""
    if os.environ.get("CI") == "true":
        test.fail(f"nothing may be left out here: {reason}")
    _left_out.append(reason)
    test.skipTest(reason)


def lack_of(package):
    """Why a test that imports this package cannot run, or None."""
    return None if importlib.util.find_spec(package) else f"{package} is not there; install python3-{package}"


def need(test, package):
    if reason := lack_of(package):
        skip(test, reason)


def main(package=None):
    """harness.main() of a file whose tests import `package`, all of them."""
    if package and (reason := lack_of(package)):
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
