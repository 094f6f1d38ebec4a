"""The programs that a wheel brings: `capstan` and others, as commands of the environment that the wheel is installed in."""
from __future__ import annotations

import os
import pathlib
import sys

_FOLDER = pathlib.Path(__file__).resolve().parent / "bin"


def _become(name: str) -> None:
    """Runs the program in place of this process. It starts scripts with the interpreter that this is."""
    path = _FOLDER / name
    if not path.exists():
        sys.exit(f"{name}: {path} is not there: this capstan package is no wheel's. `cmake --install` puts the programs "
                 "into bin/ of the same prefix")
    os.environ["CAPSTAN_PYTHON"] = sys.executable
    sys.stdout.flush()
    os.execv(path, [sys.argv[0], *sys.argv[1:]])


def capstan() -> None:
    """The command `capstan`."""
    _become("capstan")


def server() -> None:
    """The command `capstan-server`."""
    _become("capstan-server")


def worker() -> None:
    """The command `capstan-worker`."""
    _become("capstan-worker")
