#!/usr/bin/python3
"""Starts Python scripts without their imports: the server has imported their modules once, and forks a process for each.

A script's process is like one started by a shell: it has its own arguments, folder, environment, PYTHONPATH, output,
session, exit code and id. These are different: modules imported here, PYTHONHASHSEED and the interpreter's options are the
server's, and those modules are not torn down when the script has ended. forked_script.py is the other end of the socket.

usage: fork_server.py DESCRIPTOR MODULE...     DESCRIPTOR: of a socket, with one message for each script to start
"""
import atexit
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import threading
import types

MESSAGE_BYTES = 1 << 20


class Child:
    """A script's process. Its id is not reused after its end until the test has closed its end of `report`."""

    def __init__(self, pid, report):
        self.pid, self.report = pid, report
        self.ends = os.pidfd_open(pid)
        self.tell(pid)

    def tell(self, number):
        with contextlib.suppress(BrokenPipeError):  # the test may have closed its end
            self.report.send(str(number).encode())

    def tell_exit(self):
        """Sends the test the exit code, or minus the number of the signal that killed the script, as in subprocess."""
        result = os.waitid(os.P_PIDFD, self.ends, os.WEXITED | os.WNOWAIT)
        self.tell(result.si_status if result.si_code == os.CLD_EXITED else -result.si_status)

    def finish(self):
        os.kill(self.pid, signal.SIGKILL)  # it may have ended, but is not reaped yet
        os.waitpid(self.pid, 0)
        self.close()

    def close(self):
        os.close(self.ends)
        self.report.close()


class Server:
    def __init__(self, connection):
        self.connection = connection
        self.poll = select.poll()
        self.poll.register(connection, select.POLLIN)
        self.children = {}  # by the descriptors that report their end

    def serve(self):
        """Serves until the test closes the connection; in each child, returns a function that continues as the script."""
        while True:
            descriptor, _ = self.poll.poll()[0]  # the others will still be ready, or have been closed
            if descriptor != self.connection.fileno():
                self.look_at(descriptor)
                continue
            message, descriptors, _, _ = socket.recv_fds(self.connection, MESSAGE_BYTES, 2)
            if not message:
                return self.finish()
            script = self.start(json.loads(message), *descriptors)
            if script is not None:
                return script

    def start(self, request, output, report):
        report = socket.socket(fileno=report)
        pid = os.fork()
        if pid != 0:
            os.close(output)
            child = Child(pid, report)
            for descriptor, events in ((child.ends, select.POLLIN), (report.fileno(), select.POLLHUP)):
                self.children[descriptor] = child
                self.poll.register(descriptor, events)
            return None
        report.close()
        self.connection.close()
        for child in set(self.children.values()):
            child.close()
        return lambda: become(request, output)

    def look_at(self, descriptor):
        child = self.children.pop(descriptor)
        self.poll.unregister(descriptor)
        if descriptor == child.ends:
            child.tell_exit()
            return
        if self.children.pop(child.ends, None) is not None:
            self.poll.unregister(child.ends)
        child.finish()

    def finish(self):
        for child in set(self.children.values()):
            child.finish()


def packages():
    """Returns the folders of PYTHONPATH."""
    text = os.environ.get("PYTHONPATH", "")
    return text.split(os.pathsep) if text else []


BUILT_IN_PATH = sys.path[1 + len(packages()):]


def become(request, output):
    """Continues as a process that was started with this request."""
    os.setsid()
    for standard in (1, 2):
        os.dup2(output, standard)
    os.close(output)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # Python's own generator reseeds itself after a fork
    run(request["arguments"])


def run(arguments):
    """Runs a script or -c as `python3 ARGUMENTS...` does, in a fresh __main__."""
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    if arguments[0] == "-c":
        source, name, folder = arguments[1], "<string>", ""
        sys.argv = ["-c", *arguments[2:]]
    else:
        name = module.__file__ = os.path.abspath(arguments[0])
        folder = os.path.dirname(name)
        sys.argv = list(arguments)
        with open(name, encoding="utf-8") as file:
            source = file.read()
    sys.path[:] = [folder, *packages(), *BUILT_IN_PATH]
    exec(compile(source, name, "exec"), vars(module))
    end(module)


def end(module):
    """Ends as the interpreter does, but does not free imported modules: for PyTorch's objects that takes 0.2 s."""
    threading._shutdown()
    atexit._run_exitfuncs()
    vars(module).clear()
    gc.collect()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def main():
    for module in sys.argv[2:]:
        importlib.import_module(module)
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, f"a fork would lose {len(threads) - 1} threads of what was imported"
    gc.collect()
    gc.freeze()  # no child's collection writes to memory that all of them share
    script = Server(socket.socket(fileno=int(sys.argv[1]))).serve()
    if script is not None:
        script()


if __name__ == "__main__":
    main()
