"""Shared by tests of jobs whose workers add up gradients among themselves: a process's counters, and when all workers of a
group take part. A member that is disturbed before that is another case: the group does not have it yet."""
import contextlib
import urllib.request

import harness
import recovery

REDUCED = "capstan_worker_reduced_bytes_total"
SENT = "capstan_worker_group_transmit_bytes_total"  # 0 in a group of one member


class CollectiveJob:
    """A second base class of a test, besides harness.JobTest."""

    def page_of(self, address):
        """Returns a process's counters, by name with labels; empty if it does not answer."""
        with contextlib.suppress(OSError):
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=harness.DEADLINE) as page:
                lines = [line for line in page.read().decode().splitlines() if not line.startswith("#")]
            return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}
        return {}

    def counters(self, process, run="run"):
        return self.page_of(self.endpoints(run)["metrics"][process])

    def seen(self, process, counter, run="run"):
        """Returns the process's present address and counter. A restarted process has another address."""
        address = self.endpoints(run)["metrics"].get(process)
        return address, self.page_of(address).get(counter, 0)

    def wait_until_counting(self, launch, names, counter, run="run", since=None):
        """Waits until the counter of each of these processes differs from `since` (default: from its present value)."""
        since = since or {name: self.seen(name, counter, run) for name in names}

        def adds(name):
            now = self.seen(name, counter, run)
            return now[1] != 0 and now != since[name]
        for name in names:
            recovery.poll(lambda: launch.closed or adds(name), f"{name} adding to {counter}")
        if launch.closed:
            raise AssertionError(f"it ended early:\n{launch.output}")

    def disturb(self, launch, names, number, run="run"):
        """Sends a signal to the living processes. Returns their ids."""
        pids = [recovery.pid_of(self.path(run), name) for name in names]
        for name, pid in zip(names, pids):
            self.assertTrue(recovery.kill_if_alive(pid, number), f"{name} had ended before:\n{launch.output}")
        return pids

    def wait_for_line_after(self, launch, count, *texts):
        """Waits for a line after the first `count` that has one of these texts; returns the last such line."""
        found = lambda: [line for line in launch.lines[count:] if any(text in line for text in texts)]
        recovery.poll(lambda: launch.closed or found(), f"a line with one of {texts}")
        if not found():
            raise AssertionError(f"it ended without a line of {texts}:\n{launch.output}")
        return found()[-1]
