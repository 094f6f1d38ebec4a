#!/usr/bin/python3
"""Every built program and library has what cmake/hardening.cmake asks for."""
import argparse
import re
import subprocess
import unittest

FILES, OPTIMISED = [], False


def read(path, *what):
    """Returns what readelf prints about a file."""
    return subprocess.run(["readelf", "--wide", *what, path], capture_output=True, text=True, errors="replace", check=True,
                          env={"LC_ALL": "C"}).stdout


def imports(path):
    """Returns the names that the file takes from other libraries."""
    return set(re.findall(r"\bUND (\w+)", read(path, "--dyn-syms")))


class HardeningTest(unittest.TestCase):
    def each(self):
        self.assertTrue(FILES)
        for path in FILES:
            with self.subTest(path):
                yield path

    def test_addresses_are_random(self):
        for path in self.each():
            self.assertRegex(read(path, "--file-header"), r"Type:\s+DYN")

    def test_tables_of_functions_cannot_be_written(self):
        for path in self.each():
            self.assertIn("GNU_RELRO", read(path, "--program-headers"))
            self.assertRegex(read(path, "--dynamic"), r"BIND_NOW|FLAGS.*\bNOW\b")

    def test_no_memory_is_writable_and_executable(self):
        for path in self.each():
            headers = read(path, "--program-headers")
            self.assertRegex(headers, r"GNU_STACK.* RW ")
            self.assertNotRegex(headers, r" RWE ")

    def test_frames_are_checked(self):
        for path in self.each():
            self.assertIn("__stack_chk_fail", imports(path))

    def test_sizes_are_checked(self):
        if not OPTIMISED:
            self.skipTest("the compiler adds these checks only where it optimises")
        for path in self.each():
            self.assertTrue([name for name in imports(path) if re.fullmatch(r"__\w+_chk", name)])

    def test_indices_are_checked(self):
        for path in self.each():
            self.assertTrue([name for name in imports(path) if "__glibcxx_assert_fail" in name])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--optimised", action="store_true")
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    FILES, OPTIMISED = arguments.files, arguments.optimised
    unittest.main(argv=[__file__], verbosity=2)
