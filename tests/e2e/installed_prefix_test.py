#!/usr/bin/python3
"""The shared prefix holds the present build, and is installed once."""
import os
import shutil
import subprocess

import harness
import installed_prefix

INSTALL = """\
file(INSTALL DESTINATION "${{CMAKE_INSTALL_PREFIX}}/lib" TYPE SHARED_LIBRARY FILES
  "{folder}/library"
  )
file(INSTALL DESTINATION "${{CMAKE_INSTALL_PREFIX}}" TYPE DIRECTORY FILES "{folder}/headers" FILES_MATCHING REGEX "[.]h$")
file(WRITE "{folder}/installs" "one more")
"""


class InstalledPrefixTest(harness.JobTest):
    def setUp(self):
        super().setUp()
        os.makedirs(self.path("part"))
        os.makedirs(self.path("headers", "of"))
        self.write("library", "first")
        self.write("headers/of/a.h", "first")
        self.write("cmake_install.cmake", f'include("{self.path("part")}/cmake_install.cmake")\n')
        self.write("part/cmake_install.cmake", INSTALL.format(folder=self.folder))

    def installed(self):
        """Brings the prefix up to date. Returns its files, and whether this call has installed it."""
        if os.path.exists(self.path("installs")):
            os.remove(self.path("installs"))
        prefix = installed_prefix.up_to_date(self.folder)
        files = {}
        for folder, _, names in os.walk(prefix):
            for name in set(names) - {".installed"}:
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    files[os.path.relpath(os.path.join(folder, name), prefix)] = file.read()
        return files, os.path.exists(self.path("installs"))

    def test_it_is_installed_once_for_each_change(self):
        first = {"lib/library": "first", "headers/of/a.h": "first"}
        self.assertEqual(self.installed(), (first, True))
        self.make_all_older()
        self.assertEqual(self.installed(), (first, False))
        self.write("library", "second")
        self.assertEqual(self.installed(), ({**first, "lib/library": "second"}, True))
        self.make_all_older()
        self.write("headers/of/a.h", "second")
        self.assertEqual(self.installed(), ({"lib/library": "second", "headers/of/a.h": "second"}, True))
        self.make_all_older()
        os.rename(self.path("headers/of/a.h"), self.path("headers/of/b.h"))
        self.assertEqual(self.installed(), ({"lib/library": "second", "headers/of/b.h": "second"}, True))
        self.make_all_older()
        self.write("part/cmake_install.cmake", INSTALL.format(folder=self.folder).replace("/lib\"", "/lib64\""))
        self.assertEqual(self.installed(), ({"lib64/library": "second", "headers/of/b.h": "second"}, True))

    def make_all_older(self):
        """Makes all files older than the prefix, by so much that a coarse clock of the file system does not matter."""
        for folder, _, names in os.walk(self.folder):
            if os.path.relpath(folder, self.folder).split(os.sep)[0] != "prefix":
                for path in (folder, *(os.path.join(folder, name) for name in names)):
                    os.utime(path, ns=(0, 10**9))

    def test_a_prefix_that_was_removed_is_installed_again(self):
        first, _ = self.installed()
        shutil.rmtree(self.path("prefix"))
        self.make_all_older()
        self.assertEqual(self.installed(), (first, True))

    def test_an_install_that_failed_is_not_taken(self):
        self.installed()
        self.write("part/cmake_install.cmake", 'message(FATAL_ERROR "no")')
        for _ in range(2):
            with self.assertRaises(subprocess.CalledProcessError):
                self.installed()


if __name__ == "__main__":
    harness.main()
