"""Stamps: when each test of a preset last passed. A test is due if something that it reads is newer."""
import os

from machine import ROOT, build_folder
from results import property_of

# Tests that are always due, because they read the whole tree or use all programs. They take seconds.
ALWAYS = ("tidy", "tidy_test", "tidy_format", "smoke_test")
PLUGINS = ("lib", "tests/nccl_stand_in")  # loaded by programs whose command does not name them
COMPILED = (".cc", ".h", ".cu", ".capnp")  # covered by the program that they were compiled into


def files_in(folder):
    return [os.path.join(path, name) for path, _, names in os.walk(folder) if not path.endswith("__pycache__") for name in names]


class Stamps:
    def __init__(self, preset, root=ROOT):
        self.root, self.build = root, build_folder(preset) if root == ROOT else os.path.join(root, "build", preset)
        self.folder = os.path.join(self.build, "passed")
        os.makedirs(self.folder, exist_ok=True)
        self.newest_plugin = self._newest(path for folder in PLUGINS for path in files_in(os.path.join(self.build, folder))
                                            if ".so" in path)

    def due(self, tests):
        """Returns the names of those of `tests`, as ctest lists them, that are due."""
        return [test["name"] for test in tests if self._is_due(test)]

    def _is_due(self, test):
        if test["name"] in ALWAYS:
            return True
        try:
            passed = os.stat(os.path.join(self.folder, test["name"])).st_mtime
        except FileNotFoundError:
            return True
        return self.newest_plugin > passed or self._newest(self._files_of(test)) > passed

    @staticmethod
    def _newest(files):
        return max((os.stat(file).st_mtime for file in files), default=0)

    def _files_of(self, test):
        """Returns the files in the test's command and next to its sources; for a script, also the programs and the harness."""
        command = test.get("command", [])
        named = [word for word in command if word.startswith(self.root + os.sep)]
        files = [word for word in named if os.path.isfile(word)]
        folders = [word for word in named if os.path.isdir(word) and word != self.build]
        if any(word.endswith(".py") for word in files):
            folders.append(os.path.join(self.build, "bin"))
            files += [file for file in files_in(os.path.join(self.root, "tests", "e2e")) if file.endswith(".py")]
        for folder in folders:
            files += files_in(folder)
        return files + [file for file in files_in(self._source_folder(test)) if not file.endswith(COMPILED)]

    def _source_folder(self, test):
        """Returns the folder of the CMakeLists.txt that adds the test: it lies where the test's folder lies in the build."""
        place = os.path.relpath(property_of(test, "WORKING_DIRECTORY", self.build), self.build)
        return os.path.join(self.root, place) if not place.startswith(".") else os.devnull

    def note(self, names, moment):
        """Records that these tests passed. `moment` is the start of their run, because the run may not see later edits."""
        for name in names:
            path = os.path.join(self.folder, name)
            with open(path, "w", encoding="ascii"):
                pass
            os.utime(path, (moment, moment))
