"""A program on a terminal of its own: what it shows, keys, the size of the window, and the terminal's settings."""
import contextlib
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import threading

import harness

ESCAPE = re.compile(r"\x1b\[[?\d;]*[A-Za-z]")
SECOND_SCREEN, FIRST_SCREEN, END_OF_PICTURE = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25l"


class Terminal:
    """Use it in a with block, which kills the program at its end."""

    def __init__(self, *command, columns=80, rows=24, cwd=None, **environment):
        self.near, self.far = pty.openpty()
        self.resize(columns, rows)
        self.settings = termios.tcgetattr(self.far)
        self.bytes = b""
        self.arrived = threading.Condition()
        usual = {"TERM": "xterm", "LC_ALL": "C.UTF-8"}
        variables = {name: value for name, value in {**os.environ, **usual, **environment}.items() if value is not None}
        if "NO_COLOR" not in environment:
            variables.pop("NO_COLOR", None)
        self.child = subprocess.Popen([*harness.OBEDIENT, *command], cwd=cwd, stdin=self.far, stdout=self.far, stderr=self.far,
                                      process_group=0, env=variables)
        self.closing = threading.Event()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        while not self.closing.is_set():
            if select.select([self.near], [], [], 0.05)[0]:
                with self.arrived:
                    self.bytes += os.read(self.near, 65536)
                    self.arrived.notify_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            self.child.kill()
        self.child.wait()
        self.closing.set()
        self.reader.join()
        os.close(self.near)
        os.close(self.far)

    @property
    def text(self):
        return self.bytes.decode(errors="replace")

    @property
    def picture(self):
        """The lines of the newest whole picture, without escape sequences."""
        whole = [picture for picture in self.text.split("\x1b[H")[1:] if END_OF_PICTURE in picture]
        return [ESCAPE.sub("", line).rstrip("\r") for line in whole[-1].split(END_OF_PICTURE)[0].split("\n")] if whole else []

    def resize(self, columns, rows):
        fcntl.ioctl(self.far, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, key):
        os.write(self.near, key)

    def wait_for(self, condition, what):
        """Waits until `condition(self)` is true, and returns its result."""
        with self.arrived:
            if not self.arrived.wait_for(lambda: condition(self), harness.DEADLINE):
                raise AssertionError(f"{what} did not happen within {harness.DEADLINE} s {harness.OUT_OF_TIME}; the terminal has\n"
                                     f"{self.text[-3000:]!r}")
            return condition(self)

    def wait(self):
        return self.child.wait(harness.DEADLINE)

    def is_as_before(self):
        """Whether the program has restored the terminal's settings."""
        return termios.tcgetattr(self.far) == self.settings
