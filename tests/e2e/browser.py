"""Chromium without a screen, driven over a pipe by the DevTools protocol: what a page shows, and a picture of it.

The protocol goes over two pipes instead of a WebSocket, so Python's standard library is enough.
"""
import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# Debian's name and others'. scripts/install-deps --test installs the package chromium.
PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
# Moves the pipes to where Chromium expects them: commands at descriptor 3, answers at 4.
MOVE = ("import fcntl, os, sys\n"
        "commands, answers = (fcntl.fcntl(int(fd), fcntl.F_DUPFD, 100) for fd in sys.argv[1:3])\n"
        "os.dup2(commands, 3); os.dup2(answers, 4); os.close(commands); os.close(answers)\n"
        "os.execv(sys.argv[3], sys.argv[3:])")
ANSWER_SECONDS = 60
# Chromium sometimes never answers after its start, on a busy machine. So it is started up to three times. It has this
# long to answer each of the first commands.
START_SECONDS = (20, 20, ANSWER_SECONDS)
GONE_SECONDS = 5  # for the processes of a killed browser to be gone
POLL_SECONDS = 0.1


class NoAnswer(AssertionError):
    """The browser has ended, or has not answered in time."""


class Browser:
    """One browser with one page. `patience`: a factor of all deadlines."""

    def __init__(self, patience=1):
        self.patience = patience

    def __enter__(self):
        starts = list(START_SECONDS)
        while True:
            seconds = starts.pop(0)
            self.start()
            try:
                self.attach(seconds)
                return self
            except BaseException as failure:
                self.stop()
                if not starts or not isinstance(failure, NoAnswer):
                    raise

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self.folder = tempfile.mkdtemp(prefix="capstan-browser-")
        self.buffer = b""
        self.number = 0
        self.session = None
        self.errors = []  # what the page's script complained about
        commands_out, self.commands = os.pipe()
        self.answers, answers_in = os.pipe()
        # A container often lacks what Chromium's sandbox needs. The browser only reads pages of this test.
        words = [PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={self.folder}", "about:blank"]
        self.process = subprocess.Popen([sys.executable, "-c", MOVE, str(commands_out), str(answers_in), *words],
                                        pass_fds=(commands_out, answers_in), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        os.close(commands_out)
        os.close(answers_in)

    def attach(self, seconds):
        deadline = time.monotonic() + seconds * self.patience
        while (page := self.page(seconds)) is None:
            if time.monotonic() > deadline:
                raise NoAnswer("the browser has no page")
            select.select([], [], [], POLL_SECONDS)
        self.session = self.call("Target.attachToTarget", seconds, targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable", seconds)

    def page(self, seconds):
        """Returns the id of the browser's page, or None as long as it has none."""
        targets = self.call("Target.getTargets", seconds)["targetInfos"]
        return next((target["targetId"] for target in targets if target["type"] == "page"), None)

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        deadline = time.monotonic() + GONE_SECONDS * self.patience
        with contextlib.suppress(ProcessLookupError):  # raised once its children, which write to the folder, are gone
            while time.monotonic() < deadline:
                os.killpg(self.process.pid, 0)
                select.select([], [], [], POLL_SECONDS)
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, seconds=ANSWER_SECONDS, **parameters):
        """Returns the result of a command; fails if there is none after `seconds` times the patience."""
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        try:
            os.write(self.commands, json.dumps(command).encode() + b"\0")
        except BrokenPipeError:
            raise NoAnswer(f"the browser has ended before {method}") from None
        deadline = time.monotonic() + seconds * self.patience
        while True:
            message = self.message(deadline, method)
            if message.get("id") == self.number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]
            self.note(message)

    def message(self, deadline, method):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.answers], [], [], max(0, deadline - time.monotonic()))
            part = os.read(self.answers, 1 << 20) if ready else b""
            if not part:
                raise NoAnswer(f"the browser does not answer {method}")
            self.buffer += part
        text, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(text)

    def note(self, message):
        parameters = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(parameters["exceptionDetails"].get("exception", {}).get("description", "exception"))
        elif message.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.errors.append(parameters["entry"]["text"] + " " + parameters["entry"].get("url", ""))

    def resize(self, width, height, phone=False, scale=1):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone)

    def prefer(self, scheme):
        """Sets whether the user prefers a "light" or a "dark" page."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def run_scripts(self, yes):
        self.call("Emulation.setScriptExecutionDisabled", value=not yes)

    def open(self, url):
        self.call("Page.navigate", url=url)

    def evaluate(self, expression):
        """Returns the value of an expression in the page; None if it fails, as it does while the page is being loaded."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    def wait_for(self, expression, what, seconds=120):
        """Waits until an expression of the page is true; returns its value."""
        deadline = time.monotonic() + seconds * self.patience
        while not (value := self.evaluate(expression)):
            if time.monotonic() > deadline:
                shown = self.evaluate("document.body && document.body.innerText")
                raise AssertionError(f"{what} is not shown; the page says:\n{shown}\nand its script: {self.errors[-3:]}")
            select.select([], [], [], POLL_SECONDS)
        return value

    def text(self, element):
        return self.evaluate(f"document.getElementById({json.dumps(element)}).innerText")

    def picture(self, quality=80):
        """Returns what is visible of the page, as a WebP."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="webp", quality=quality)["data"])
