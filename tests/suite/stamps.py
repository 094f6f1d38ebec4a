"""Stamps: the contents that each test of a preset read when it last passed. A test is due if any of them differ now."""
import hashlib
import json
import os
import re

from machine import ROOT, build_folder
from results import property_of

# Tests that are always due, because they read the whole tree or use all programs. They take seconds.
ALWAYS = ("tidy", "tidy_test", "tidy_format", "architecture_test", "smoke_test")
LOADED = ("bin", "lib", "tests/nccl_stand_in")  # the build's folders of programs and plug-ins that any script may use
COMPILED = (".cc", ".h", ".cu", ".capnp")  # covered by the program that they were compiled into


def files_in(folder):
    return [os.path.join(path, name) for path, _, names in os.walk(folder) if not path.endswith("__pycache__") for name in names]


class Stamps:
    def __init__(self, preset, root=ROOT):
        self.root, self.build = root, build_folder(preset) if root == ROOT else os.path.join(root, "build", preset)
        self.folder = os.path.join(self.build, "passed")
        os.makedirs(self.folder, exist_ok=True)
        self.seen = {}  # what _read returned for each path
        self.stamps = {}  # of the tests that are due, by name: what they record if they pass
        self.path = re.compile(re.escape(os.fsencode(root + os.sep)) + rb"[\w.+-][\w.+/-]*")

    def due(self, tests):
        """The names of the tests that are due, out of those that ctest lists."""
        due = [test for test in tests if self._is_due(test)]
        self.stamps = {test["name"]: self._stamp(test) for test in due}
        return list(self.stamps)

    def _is_due(self, test):
        if test["name"] in ALWAYS:
            return True
        path = os.path.join(self.folder, test["name"])
        try:
            with open(path, encoding="utf-8") as file:
                passed = json.load(file)
        except (FileNotFoundError, ValueError):
            return True
        moment, digests = os.stat(path).st_mtime, passed["digests"]
        if self._call(test) != passed["call"] or self._files_of(test, passed["named"]) != set(digests):
            return True
        for file, digest in digests.items():
            status = os.stat(file)
            if max(status.st_mtime, status.st_ctime) > moment and self._read(file)[0] != digest:
                return True
        return False

    def _stamp(self, test):
        named = self._named_by_programs(test)
        digests = {file: self._read(file)[0] for file in sorted(self._files_of(test, named))}
        return {"call": self._call(test), "named": named, "digests": digests}

    @staticmethod
    def _call(test):
        """What ctest runs, and the environment that it adds."""
        return [test.get("command", []), property_of(test, "ENVIRONMENT", [])]

    def _read(self, path):
        """The digest of the file's contents, and the paths of this tree that they name; each file is read once."""
        if path not in self.seen:
            with open(path, "rb") as file:
                contents = file.read()
            self.seen[path] = (hashlib.sha256(contents).hexdigest(),
                               {os.path.normpath(os.fsdecode(path)) for path in self.path.findall(contents)})
        return self.seen[path]

    def _words_of(self, test):
        """The paths of this tree in the test's command."""
        return [word for word in test.get("command", []) if word.startswith(self.root + os.sep)]

    def _named_by_programs(self, test):
        """Paths in the bytes of the test's programs: compiled-in plug-ins, other programs, inputs, and folders of libraries."""
        programs = [word for word in self._words_of(test) if word.startswith(self.build) and os.path.isfile(word)]
        return sorted(set().union(*(self._read(program)[1] for program in programs)))

    def _files_of(self, test, named):
        """The files in the test's command and next to its sources, and those named by its programs; for a script, also what
        the build has for it, and the harness."""
        words = [*self._words_of(test), *named]
        files = {word for word in words if os.path.isfile(word)}
        folders = [word for word in words if os.path.isdir(word) and not self.build.startswith(word)]
        folders.append(self._source_folder(test))
        if any(word.endswith(".py") for word in files):
            folders += [os.path.join(self.build, folder) for folder in LOADED]
            files.update(file for file in files_in(os.path.join(self.root, "tests", "e2e")) if file.endswith(".py"))
        for folder in folders:
            files.update(file for file in files_in(folder) if not file.startswith(self.build) or os.access(file, os.X_OK))
        return {file for file in files if not file.endswith(COMPILED)}

    def _source_folder(self, test):
        """The folder of the CMakeLists.txt that adds the test; the build has a folder at the same place."""
        place = os.path.relpath(property_of(test, "WORKING_DIRECTORY", self.build), self.build)
        return os.path.join(self.root, place) if not place.startswith(".") else os.devnull

    def note(self, names, moment):
        """Records that these passed; `moment` is before due(), because later edits are not covered."""
        for name in set(names) & set(self.stamps):
            path = os.path.join(self.folder, name)
            with open(path, "w", encoding="utf-8") as file:
                json.dump(self.stamps[name], file)
            os.utime(path, (moment, moment))
