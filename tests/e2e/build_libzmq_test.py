#!/usr/bin/python3
"""scripts/build-libzmq: the library is built once, and where its source cannot be had, the error says what to do."""
import os
import subprocess
import tempfile
import unittest

import harness

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "scripts", "build-libzmq")


def build(**environment):
    return subprocess.run([SCRIPT], env={**os.environ, **environment}, capture_output=True, text=True,
                          timeout=4 * harness.DEADLINE, check=False)


class BuildLibzmqTest(unittest.TestCase):
    def test_a_library_that_is_there_is_not_built_again(self):
        built, again = build(), build()
        self.assertEqual((built.returncode, again.returncode), (0, 0), built.stderr + again.stderr)
        self.assertEqual(again.stdout, built.stdout)
        self.assertEqual(again.stderr, "")
        for path in "include/zmq.h", "lib/libcapstan_zmq.a", "lib/libcapstan_zmq.so.5":
            self.assertTrue(os.path.exists(os.path.join(built.stdout.strip(), path)), path)

    def test_a_source_that_cannot_be_had_is_named_with_what_to_do(self):
        with tempfile.TemporaryDirectory(prefix="capstan-cache-") as cache:
            nobody = "http://127.0.0.1:9"  # a port at which no proxy listens
            failed = build(CAPSTAN_CACHE=cache, http_proxy=nobody, CAPSTAN_LIBZMQ_SOURCE="")
            self.assertEqual(failed.returncode, 1)
            for words in "zeromq3_4.3.4.orig.tar.gz", f"put it into {cache}", "CAPSTAN_LIBZMQ_SOURCE":
                self.assertIn(words, failed.stderr)
            wrong = build(CAPSTAN_CACHE=cache, CAPSTAN_LIBZMQ_SOURCE=SCRIPT)
            self.assertEqual(wrong.returncode, 1)
            self.assertIn(f"CAPSTAN_LIBZMQ_SOURCE={SCRIPT} is not zeromq3_4.3.4.orig.tar.gz", wrong.stderr)
            self.assertEqual(os.listdir(cache), [])


if __name__ == "__main__":
    harness.main()
