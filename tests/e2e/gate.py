"""A gate before a step of a job: its workers wait there until the test opens it.

So a test can act before a job ends, however fast the job is. In Python, paced_script.py waits at the gate; a program in
another language takes a shared lock of the file before it begins the step.
"""
import fcntl

# The environment variable with the gates at which a worker waits: STEP:FILE, separated by spaces.
VARIABLE = "CAPSTAN_TEST_GATES"


class Gate:
    def __init__(self, path, step):
        self.text = f"{step}:{path}"
        self.file = open(path, "w", encoding="ascii")
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def open(self):
        fcntl.flock(self.file, fcntl.LOCK_UN)

    def close(self):
        self.file.close()


def wait_at(path):
    """Waits in a worker until the test opens the gate."""
    with open(path, encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
