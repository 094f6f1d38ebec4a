"""Python scripts as processes of a fork server, for tests that start many: the server has already imported their modules."""
import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import threading

import harness

SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fork_server.py")


class ForkServer:
    """A Python process that has imported `modules`, by this interpreter or another one. Its scripts are killed when it is closed or this process ends."""

    def __init__(self, modules, environment, interpreter=sys.executable):
        self.connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.child = subprocess.Popen([interpreter, "-B", SERVER, str(theirs.fileno()), *modules], env=environment,
                                          pass_fds=[theirs.fileno()], stdout=subprocess.DEVNULL)
        atexit.register(self.close)

    def start(self, arguments, folder, environment):
        return Child(self.connection, arguments, folder, environment)

    def close(self):
        self.connection.close()
        self.child.wait()


class Child:
    """The part of subprocess.Popen that harness.Process uses."""

    def __init__(self, connection, arguments, folder, environment):
        self.arguments = arguments
        self.returncode = None
        output, theirs = os.pipe()
        self.report, report = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {"arguments": arguments, "folder": folder, "environment": environment}
        try:
            socket.send_fds(connection, [json.dumps(request).encode()], [theirs, report.fileno()])
        finally:
            os.close(theirs)
            report.close()
        self.stdout = open(output, encoding="utf-8", errors="replace")
        try:
            self.pid = int(self._reported(harness.DEADLINE))
        except BaseException:
            self.release()
            self.stdout.close()
            raise

    def _reported(self, timeout):
        self.report.settimeout(timeout)
        try:
            text = self.report.recv(64)
        except TimeoutError:
            raise subprocess.TimeoutExpired(self.arguments, timeout) from None
        if not text:
            raise AssertionError("the fork server has ended; it says why on standard error")
        return text

    def wait(self, timeout=None):
        if self.returncode is None:
            self.returncode = int(self._reported(timeout))
        return self.returncode

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)

    def release(self):
        """Allows the system to reuse the process's id, which it does not do before this call."""
        self.report.close()


class ForkedScript(harness.Process):
    """Like harness.Process, for a script started by the fork server."""

    def __init__(self, server, *arguments, cwd, environment):
        self.name = os.path.basename(arguments[0])
        self.lines = []
        self.arrived = threading.Condition()
        self.closed = False
        self.child = server.start(arguments, cwd, environment)
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def __exit__(self, *what):
        try:
            super().__exit__(*what)
        finally:
            self.child.release()
