"""The errors of capstan's client: one exception for each code. The code tells the caller how to react."""
from __future__ import annotations


class Error(Exception):
    """A call failed. The text says what failed, for which object and peer, and what to do next."""

    code = 0


class Invalid(Error, ValueError):
    """Fix the call."""

    code = 1


class Busy(Error):
    """The same call may succeed later: memory or threads were short."""

    code = 2


class Stale(Error):
    """The round is over: ask for the next work, as Client.work() does."""

    code = 3


class Rewound(Stale):
    """The job went back to an earlier step, but the loop's samples cannot: start the process again."""


class Timeout(Error, TimeoutError):
    """The deadline passed."""

    code = 4


class Unreachable(Error, ConnectionError):
    """No answer from that address."""

    code = 5


class Corrupt(Error):
    """Bytes do not match their checksum or format."""

    code = 6


class Unsupported(Error, NotImplementedError):
    """This build cannot do it."""

    code = 7


class Refused(Error, ConnectionRefusedError):
    """The job does not accept this worker, or has failed; do not retry."""

    code = 8


_BY_CODE = {kind.code: kind for kind in (Invalid, Busy, Stale, Timeout, Unreachable, Corrupt, Unsupported, Refused)}


def error_of(code: int, text: str) -> Error:
    return _BY_CODE.get(code, Error)(text)
