"""What a call of capstan's client can fail with: one exception for each code, so that a handler names its reaction."""
from __future__ import annotations


class Error(Exception):
    """The client could not do what it was asked for; the text says what, which one, whom, what to do next."""

    code = 0


class Invalid(Error, ValueError):
    """Fix the call."""

    code = 1


class Busy(Error):
    """The same call may succeed later: memory or threads were short."""

    code = 2


class Stale(Error):
    """The round is over: ask for the next work. Client.work() does."""

    code = 3


class Rewound(Stale):
    """The job went back to an earlier step, and the loop's samples cannot: start the process again."""


class Timeout(Error, TimeoutError):
    """The time was up."""

    code = 4


class Unreachable(Error, ConnectionError):
    """Nobody answers there."""

    code = 5


class Corrupt(Error):
    """Bytes do not match their checksum or format."""

    code = 6


class Unsupported(Error, NotImplementedError):
    """Known, but not in this build."""

    code = 7


class Refused(Error, ConnectionRefusedError):
    """The job does not want this worker, or has failed; do not retry."""

    code = 8


_BY_CODE = {kind.code: kind for kind in (Invalid, Busy, Stale, Timeout, Unreachable, Corrupt, Unsupported, Refused)}


def error_of(code: int, text: str) -> Error:
    return _BY_CODE.get(code, Error)(text)
