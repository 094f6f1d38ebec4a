"""Lines for people: through Python's logging where the program has set it up, and else on stderr."""
from __future__ import annotations

import logging
import sys


class _Standard(logging.Handler):
    """Shows what nobody else would, as "capstan: text"."""

    def emit(self, record: logging.LogRecord) -> None:
        if not logging.getLogger().handlers and log.handlers == [self]:
            print(f"capstan: {record.getMessage()}", file=sys.stderr, flush=True)


log = logging.getLogger("capstan")
log.addHandler(_Standard())
