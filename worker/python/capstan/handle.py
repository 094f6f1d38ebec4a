"""A Python object that owns a handle of the library: a capstan_client or a capstan_reader."""
from __future__ import annotations

import ctypes
import math
import os
import re
import socket
import threading
import time
import weakref
import zlib
from collections.abc import Callable
from typing import Any

from capstan import abi
from capstan.errors import Invalid, Timeout, error_of

# How long one wait lasts before Python can handle a signal such as Ctrl-C.
_SLICE_SECONDS = 0.2
_ERROR_BYTES = 4096


def key_file_bytes(given: str | None) -> bytes | None:
    """The given path, or else $CAPSTAN_KEY_FILE; None: this process has no key."""
    path = given if given is not None else os.environ.get("CAPSTAN_KEY_FILE")
    return text_bytes("the key file", path) if path else None


def text_bytes(what: str, text: str) -> bytes:
    """The text as bytes for a C string."""
    if "\0" in text:
        raise Invalid(f"{what} {text!r} has a zero byte")
    return text.encode()


def own_name() -> str:
    """A name for this process of at most 64 letters, digits and "._-", as the library takes them."""
    host, end = socket.gethostname(), f"-{os.getpid()}"
    if len(host) + len(end) > 64:  # long names of hosts often differ at the end only
        end = f"-{zlib.crc32(host.encode(errors='replace')):08x}{end}"
    return re.sub(r"[^A-Za-z0-9._-]", "-", host[:64 - len(end)]) + end


class Handle:
    """The library's handle is freed when neither this object nor a view of its memory is referenced any more, at the
    latest when Python ends."""

    def __init__(self, options: abi.Sized, kind: str = "") -> None:
        """`kind` is the prefix of the functions' names: "" or "reader_"."""
        self.functions = abi.load()
        self.pointer = ctypes.c_void_p()
        self._prefix = f"capstan_{kind}"
        error = ctypes.create_string_buffer(_ERROR_BYTES)
        code = interruptibly(lambda: self.function("connect")(options, self.pointer, error, _ERROR_BYTES))
        if code != abi.OK:
            raise error_of(code, error.value.decode(errors="replace"))
        # finalize() keeps `options` alive: the client's thread calls their on_notice until the client is freed.
        weakref.finalize(self, lambda free, pointer, _: free(pointer), self.function("free"), self.pointer, options)

    def function(self, name: str) -> Any:
        return getattr(self.functions, self._prefix + name)

    def call(self, name: str, *arguments: object) -> None:
        code = self.function(name)(self.pointer, *arguments)
        if code != abi.OK:
            raise error_of(code, self.function("last_error")(self.pointer).decode(errors="replace"))


def interruptibly(call: Callable[[], int]) -> int:
    """Runs a call into C on a new thread and returns its result. Python handles Ctrl-C only between its own calls."""
    returned: list[int] = []
    thread = threading.Thread(target=lambda: returned.append(call()), daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(_SLICE_SECONDS)
    return returned[0]


def patiently(call: Callable[[float], None], seconds: float | None = None,
              meanwhile: Callable[[], None] = lambda: None) -> None:
    """Repeats `call` until it returns or `seconds` have passed. None: no deadline of its own; the job keeps the
    deadlines and reports what it waits for. `meanwhile` is called between the calls."""
    deadline = math.inf if seconds is None else time.monotonic() + seconds
    while True:
        left = deadline - time.monotonic()
        try:
            return call(max(0.0, min(left, _SLICE_SECONDS)))
        except Timeout:
            if left <= _SLICE_SECONDS:
                raise
        meanwhile()
