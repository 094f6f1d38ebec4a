"""Notices to the user: through Python's logging if the program has set it up, otherwise on stderr."""
from __future__ import annotations

import logging
import sys


class _Standard(logging.Handler):
    """Prints records that no other handler shows, as "capstan: text"."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers and log.handlers == [self]:
            print(f"capstan: {record.getMessage()}", file=sys.stderr, flush=True)


log = logging.getLogger("capstan")
log.addHandler(_Standard())
