"""Which of a process and its descendants are alive, and where each of their threads waits: for a test that ran out of time."""
import collections
import contextlib
import re
import shutil
import subprocess

PROCESSES_MAX, WAYS_MAX, FRAMES = 12, 8, 8
SECONDS_MAX = 30  # for one look with gdb


def descendants(pid):
    """Returns the ids of the process and of all its descendants."""
    found = [pid]
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid:d}/task/{pid:d}/children", encoding="ascii") as file:
            for child in file.read().split():
                found += descendants(int(child))
    return found


def describe(pid):
    """Returns a line for each process and, if gdb is installed, a line for each stack in which its threads wait."""
    lines = []
    for process in descendants(pid)[:PROCESSES_MAX]:
        with contextlib.suppress(OSError):
            with open(f"/proc/{process:d}/cmdline", encoding="utf-8", errors="replace") as file:
                call = file.read().replace("\0", " ").strip()
            with open(f"/proc/{process:d}/stat", encoding="ascii", errors="replace") as file:
                state = file.read().rsplit(")", 1)[1].split()[0]
            lines.append(f"process {process} ({state}): {call[:200]}")
            lines += [f"  {count} x {way}" for way, count in stacks(process).most_common(WAYS_MAX)]
    return "\n".join(lines)


def stacks(pid):
    """Returns the number of threads by stack: names of functions, the innermost first. Empty without gdb."""
    ways = collections.Counter()
    gdb = shutil.which("gdb")
    if gdb is None:
        return ways
    look = [gdb, "-p", str(pid), "-batch", "-nx", "-ex", f"thread apply all bt {FRAMES}"]
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(look, capture_output=True, text=True, errors="replace", timeout=SECONDS_MAX, check=False)
        for thread in re.split(r"^Thread .*$", done.stdout, flags=re.MULTILINE)[1:]:
            frames = re.findall(r"^#\d+\s+(?:0x[0-9a-f]+ in )?(.*?) \(", thread, flags=re.MULTILINE)
            ways[" < ".join(frame[:60] for frame in frames)] += 1
    return ways
