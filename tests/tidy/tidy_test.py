#!/usr/bin/python3
"""Tests that tidy.py can fail: for each rule it checks a correct tree with one planted violation, and must report it."""
import fnmatch
import os
import re
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
import tidy

SOUND = {
    "CMakeLists.txt": "add_subdirectory(common)\n",
    "common/CMakeLists.txt": "add_library(common STATIC\n  base/status.cc base/hash.cc)\n",
    "common/base/status.h": '// Status: TITLE.\n#pragma once\n#include <string>\n#define CHECK_SOUND(x) (x)\n',
    "common/base/status.cc": '#include "common/base/status.h"\n',
    "common/base/hash.cc": "#include <xxhash.h>\n",
    "common/wire/zmq_call.h": "#pragma once\n#include <zmq.hpp>\n",
    "common/base/mailbox.h": "#pragma once\n#include <mutex>\nstruct Mailbox { std::mutex mutex; };\n",
    "common/wire/transport.h": "#pragma once\n",
    "kernels/cuda/launch.h": "#pragma once\n",
    "kernels/cast.h": '#pragma once\n#include "kernels/cuda/launch.h"\n',
    # A class that is as large as a class may be.
    "server/shard/large.h": "#pragma once\ntemplate <class T>\nclass [[nodiscard]] Large {\n public:\n  using Map = std::map<int, int>;\n"
                            "  enum class State { kOne, kTwo };\n  static constexpr int kMax = 3;\n  Large() : a_(1) {}\n"
                            "  auto operator<=>(const Large&) const = default;\n"
                            + "".join(f"  int A{i}() const {{ return {i}; }}\n" for i in range(43))
                            + " private:\n  std::function<void(int)> b_;\n  int a_ = 0, c_{1};\n"
                            + "".join(f"  std::map<int, std::vector<int>> d{i}_ = {{}};\n" for i in range(17)) + "};\n",
    "kernels/gelu.h": '#pragma once\n#include "common/base/status.h"\n',
    "kernels/random_fill.h": "#pragma once\n",
    "server/shard/core.h": '#pragma once\n#include "common/base/status.h"\n#include "kernels/random_fill.h"\n',
    "worker/client/include/capstan/client.h": "#pragma once\n#include <memory>\n",
    "worker/session/core.h": '#pragma once\n#include "common/base/status.h"\n',
    "worker/train/trainer.h": '#pragma once\n#include <capstan/client.h>\n#include "worker/session/core.h"\n',
    "cli/launch.h": '#pragma once\n#include "server/shard/core.h"\n',
    "cli/trainer/machine_account.h": '#pragma once\n#include "worker/train/trainer.h"\n',
    "cli/CMakeLists.txt": "add_library(cli STATIC command_line.cc)\n",
    "cli/command_line.cc": "#include <CLI/CLI.hpp>\n",
    "tests/catch.h": "#pragma once\n#if __has_include(<catch2/catch.hpp>)\n#include <catch2/catch.hpp>\n#endif\n",
    "tests/status_test.cc": '#include "tests/catch.h"\n',
    "tests/CMakeLists.txt": "add_executable(test status_test.cc)\n",
    # Files that must not be reported as violations.
    "server/coordinator/core_loop.h": "#pragma once\n#include <thread>\ninline auto Now() { return std::chrono::steady_clock::now(); }\n",
    "docs/design/shard.md": "See [how to install](../install.md), install.md and docs/install.md; *.md are documents.\n",
    "docs/install.md": "Logs go to /var/log, data is under /usr/share; build/tmp/x and $TMPDIR/tmp/x are anywhere.\n",
    "common/base/innocent.h": '#pragma once\n// sleep_for, getenv, throw and std::mutex are words here; #if too\n'
                         'inline const char* kText = "throw std::mutex /* getenv( */";\n'
                         "inline int Million() { return 1'000'000; }\n"
                         'inline const char* kRaw = R"(\n#if 0\n#include "nowhere.h"\nthrow)";\n'
                         "/*\n#include <zmq.h>\n#ifdef X\n*/\n",
}

# Each entry: the rule, the file, its contents, and the line where the violation is expected (None: anywhere).
PLANTED = [
    ("layer", "common/wire/up.h", '#pragma once\n#include "server/shard/core.h"\n', 2),
    ("layer", "kernels/sideways.h", '#pragma once\n#include "worker/session/core.h"\n', 2),
    ("layer", "server/net/worker.h", '#pragma once\n#include "worker/session/core.h"\n', 2),
    ("layer", "server/net/public.h", "#pragma once\n#include <capstan/client.h>\n", 2),
    ("layer", "worker/train/server.h", '#pragma once\n#include "server/shard/core.h"\n', 2),
    ("layer", "worker/client/kernels.h", '#pragma once\n#include "kernels/random_fill.h"\n', 2),
    ("layer", "monitoring/kernels.h", '#pragma once\n#include "kernels/random_fill.h"\n', 2),
    ("layer", "worker/nn/client.h", '#pragma once\n#include "worker/session/core.h"\n', 2),
    ("layer", "bench/command.h", '#pragma once\n#include "cli/launch.h"\n', 2),
    ("layer", "worker/stray.h", "#pragma once\n", 1),
    ("layer", "attic/stray.h", "#pragma once\n", 1),
    ("layer", "common/base/up.h", '#pragma once\n#include "common/wire/transport.h"\n', 2),
    ("layer", "server/coordinator/sideways.h", '#pragma once\n#include "server/shard/core.h"\n', 2),
    ("trainer", "cli/launch/models.h", '#pragma once\n#include "worker/train/trainer.h"\n', 2),
    ("trainer", "bench/products.h", '#pragma once\n#include "kernels/gelu.h"\n', 2),
    ("trainer", "update/products.h", '#pragma once\n#include "kernels/gelu.h"\n', 2),
    ("folder", "kernels/cuda/up.h", '#pragma once\n#include "kernels/cast.h"\n', None),
    ("class size", "cli/many_fields.h", "#pragma once\nclass Many {\n" + "".join(f"  int a{i}_ = 0;\n" for i in range(21)) + "};\n", 2),
    ("class size", "cli/many_methods.h",
     "#pragma once\n\nstruct Many final : Base {\n" + "".join(f"  int A{i}() const {{ return {i}; }}\n" for i in range(46)) + "};\n", 3),
    ("include path", "common/base/relative.h", '#pragma once\n#include "status.h"\n', 2),
    ("include path", "common/base/missing.h", '#pragma once\n\n#include "common/base/nowhere.h"\n', 3),
    ("library", "server/net/socket.h", "#pragma once\n#include <zmq.hpp>\n", 2),
    ("library", "common/base/wire.h", "#pragma once\n#include <capnp/message.h>\n", 2),
    ("library", "worker/train/wire.h", '#pragma once\n#include "schema/wire.capnp.h"\n', 2),
    ("library", "server/net/exporter.h", "#pragma once\n#include <prometheus/registry.h>\n", 2),
    ("library", "monitoring/page.h", "#pragma once\n#include <boost/beast/http.hpp>\n", 2),
    ("library", "cli/config.h", "#pragma once\n#include <toml++/toml.h>\n", 2),
    ("library", "worker/train/gzip.h", "#pragma once\n#include <zlib.h>\n", 2),
    ("library", "common/base/flags.h", "#pragma once\n#include <CLI/CLI.hpp>\n", 2),
    ("library", "common/base/json.h", "#pragma once\n#include <nlohmann/json.hpp>\n", 2),
    ("library", "server/net/tables.h", "#pragma once\n#include <rocksdb/db.h>\n", 2),
    ("library", "kernels/gelu.h", "#pragma once\n#include <cuda_runtime.h>\n", 2),
    ("library", "worker/nn/products.h", "#pragma once\n#include <cublasLt.h>\n", 2),
    ("library", "worker/nn/convolutions.h", "#pragma once\n#include <cudnn.h>\n", 2),
    ("library", "worker/train/reduce.h", "#pragma once\n#include <nccl.h>\n", 2),
    ("library", "worker/collective/group.h", "#pragma once\n#include <gloo/context.h>\n", 2),
    ("library", "worker/train/net.h", "#pragma once\n#include <torch/nn/module.h>\n", 2),
    ("library", "worker/nn/fibers.h", "#pragma once\n#include <boost/context/fiber.hpp>\n", 2),
    ("library", "server/net/races.h", "#pragma once\n#include <sanitizer/tsan_interface.h>\n", 2),
    ("library", "server/net/log.h", "#pragma once\n#include <spdlog/spdlog.h>\n", 2),  # of no library in the table
    ("library", "common/data/catalog.h", "#pragma once\n#include <xxhash.h>\n", 2),
    ("library", "common/data/catalog.h", "#pragma once\n#include <openssl/evp.h>\n", 2),
    ("library", "common/wire/seal.h", "#pragma once\n#include <sodium.h>\n", 2),
    ("library", "tests/shard_tools.h", "#pragma once\n#include <catch2/catch.hpp>\n", 2),
    ("library", "tests/server/shard_tools.h", "#pragma once\n#include <catch2/catch_approx.hpp>\n", 2),
    ("library", "server/net/simd.h", "#pragma once\n#include <immintrin.h>\n", 2),
    ("library", "common/base/other.h", "#pragma once\n#include <boost/any.hpp>\n", 2),
    ("public header", "worker/client/include/capstan/posix.h", "#pragma once\n#include <unistd.h>\n", 2),
    ("public header", "worker/client/include/capstan/inner.h", '#pragma once\n#include "common/base/status.h"\n', 2),
    ("core", "server/coordinator/coordinator.h", "#pragma once\n#include <thread>\n", 2),
    ("core", "server/coordinator/coordinator_shards.h", "#pragma once\n#include <mutex>\n", 2),
    ("core", "update/verdict.h", "#pragma once\n#include <random>\n", 2),
    ("core", "server/coordinator/membership.h", "#pragma once\n#include <unistd.h>\n", 2),
    ("core", "server/shard/admission.h", "#pragma once\n#include <condition_variable>\n", 2),
    ("core", "server/shard/staged_block.h", '#pragma once\n#include "common/base/mailbox.h"\n', 2),
    ("core", "server/shard/block_store.h", "#pragma once\n#include <filesystem>\n", 2),
    ("core", "server/shard/core.h", "#pragma once\n#include <fstream>\n", 2),
    ("core", "worker/session/core.h", "#pragma once\n#include <sys/socket.h>\n", 2),
    ("core clock", "server/shard/core.h", "#pragma once\ninline auto Now() { return std::chrono::steady_clock::now(); }\n", 2),
    ("core clock", "server/coordinator/coordinator_text.h", "#pragma once\ninline auto Now() { return time(nullptr); }\n", 2),
    ("cycle", "common/base/status.h", '#pragma once\n#include "common/base/hash.h"\n', None),
    ("cycle", "common/base/self.h", '#pragma once\n#include "common/base/self.h"\n', 2),
    ("sleep", "tests/wait.h", "#pragma once\ninline void Wait() { std::this_thread::sleep_for(1s); }\n", 2),
    ("sleep", "server/net/wait.h", "#pragma once\ninline void Wait() { usleep(1); }\n", 2),
    ("environment", "common/base/env.h", '#pragma once\ninline auto Env() { return std::getenv("X"); }\n', 2),
    ("mutex", "server/net/lock.h", "#pragma once\nstd::mutex lock;\n", 2),
    ("mutex", "worker/nn/lock.h", "#pragma once\nstd::condition_variable_any wake;\n", 2),
    ("detach", "common/base/thread.h", "#pragma once\ninline void Go() { std::thread(Run).detach(); }\n", 2),
    ("throw", "common/base/throw.h", "#pragma once\ninline void Fail() { throw 1; }\n", 2),
    ("singleton", "common/base/local.h", "#pragma once\nthread_local int count = 0;\n", 2),
    ("random", "worker/nn/init.h", "#pragma once\nstd::mt19937 generator;\n", 2),
    ("conditional", "common/base/if.h", "#pragma once\n#ifdef CAPSTAN_CUDA\n#endif\n", 2),
    ("conditional", "kernels/if.h", "#pragma once\n# if 1\n#endif\n", 2),
    ("pragma once", "common/base/guard.h", "inline int x = 0;\n", 1),
    ("length", "common/base/long.h", "#pragma once\n" + "\n" * 600, 601),
    ("columns", "common/base/wide.h", "#pragma once\n\n// word" + " word" * 24 + "\n", 3),
    ("text", "common/base/unended.h", "#pragma once\nstruct X;", 2),
    ("text", "common/base/tab.h", "#pragma once\n\tstruct X;\n", 2),
    ("text", "common/base/blanks.h", "#pragma once\nstruct X; \n", 2),
    ("work left", "common/base/later.h", "#pragma once\n// TODO: later\n", 2),
    ("work left", "docs/later.md", "A page. FIXME\n", 1),
    ("machine path", "cli/path.h", '#pragma once\ninline const char* kPath = "/home/ann/capstan";\n', 2),
    ("machine path", "tests/run.sh", "cmake -B /tmp/build-x\n", 1),
    ("machine path", "docs/run.md", "See `/mnt/disk/notes`.\n", 1),
    ("document", "common/base/law.h", "#pragma once\n// Why: LAW.md 3 has the rule.\n", 2),
    ("document", "tests/law.py", "# See docs/install.md and docs/law.md.\n", 1),
    ("document", "docs/design/page.md", "A page.\n\nSee [another](install.md) and [none](../none.md).\n", 3),
    ("flag", "kernels/CMakeLists.txt", "target_compile_options(k PRIVATE -ffast-math)\n", 1),
    ("flag", "CMakePresets.json", '{"CMAKE_CXX_FLAGS": "-march=native"}\n', 1),
    ("unlisted", "common/base/orphan.cc", "int x = 0;\n", 1),
    ("unlisted", "common/base/tus.cc", "int x = 0;\n", 1),
]


def build(folder, files):
    for path, text in files.items():
        full = os.path.join(folder, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)


class Tidy(unittest.TestCase):
    def test_every_exception_names_files_of_this_tree(self):
        root = os.path.join(os.path.dirname(os.path.abspath(tidy.__file__)), "..", "..")
        paths = list(tidy.read_tree(root))
        patterns = [path for path, _ in self.large] + tidy.CORES + tidy.NOT_CORES + tidy.CONDITIONALS
        patterns += [pattern for entry in tidy.LIBRARIES for pattern in entry[2]] + [pattern for entry in tidy.WORDS for pattern in entry[3]]
        self.assertEqual([pattern for pattern in patterns if not fnmatch.filter(paths, pattern)], [])

    def setUp(self):
        former = dict(tidy.LARGE_CLASSES)
        tidy.LARGE_CLASSES.clear()  # the planted trees have none of these
        self.addCleanup(tidy.LARGE_CLASSES.update, former)
        self.large = former

    def check(self, files):
        with tempfile.TemporaryDirectory() as folder:
            build(folder, files)
            return tidy.violations(folder)

    def test_a_sound_tree_has_no_violation(self):
        self.assertEqual(self.check(SOUND), [])

    def test_each_planted_violation_is_named(self):
        for rule, path, text, line in PLANTED:
            with self.subTest(rule=rule, path=path):
                files = {**SOUND, path: text}
                if rule == "cycle":
                    files["common/base/hash.h"] = '#pragma once\n#include "common/base/status.h"\n'
                found = [(found_rule, found_path, found_line) for found_path, found_line, found_rule, _ in self.check(files)]
                if line is None:
                    self.assertIn(rule, [entry[0] for entry in found])
                else:
                    self.assertIn((rule, path, line), found)

    def test_a_planted_violation_is_named_once_and_nothing_else(self):
        for rule, path, text, line in PLANTED:
            if rule in ("cycle", "public header"):
                continue  # these break two rules by nature
            with self.subTest(rule=rule, path=path):
                found = [entry[2] for entry in self.check({**SOUND, path: text})]
                self.assertEqual(found, [rule])

    def test_a_large_class_that_shrinks_or_goes_lowers_its_exception(self):
        entry = ("server/shard/core.h", "Shard")
        text = "#pragma once\nclass Shard {\n" + "".join(f"  int a{i}_ = 0;\n" for i in range(30)) + "};\n"
        for numbers, files, expected in (((30, 0), {entry[0]: text}, 0), ((31, 0), {entry[0]: text}, 1), ((30, 0), {entry[0]: "#pragma once\n"}, 1)):
            tidy.LARGE_CLASSES[entry] = (*numbers, "it is a plain struct")
            self.assertEqual(len(self.check({**SOUND, **files})), expected, numbers)
        tidy.LARGE_CLASSES.clear()

    def test_an_exception_for_a_large_class_has_a_reason(self):
        entry = ("server/shard/core.h", "Shard")
        text = "#pragma once\nclass Shard {\n" + "".join(f"  int a{i}_ = 0;\n" for i in range(30)) + "};\n"
        for value, expected in (((30, 0, "it is a plain struct"), 0), ((30, 0, " "), 1), ((30, 0), 1)):
            tidy.LARGE_CLASSES[entry] = value
            self.assertEqual(len(self.check({**SOUND, entry[0]: text})), expected, value)
        tidy.LARGE_CLASSES.clear()

    def test_every_rule_has_a_planted_violation(self):
        with open(tidy.__file__, encoding="utf-8") as file:
            text = file.read()
        rules = set(re.findall(r'yield \(?[\w.]+, [^"]*?"([a-z ]+)"', text)) | {entry[0] for entry in tidy.WORDS}
        self.assertLessEqual({"layer", "cycle", "library", "unlisted"}, rules)
        self.assertEqual(rules - {entry[0] for entry in PLANTED}, set())
        for library, pattern, _ in tidy.LIBRARIES:
            self.assertTrue(any(re.search(rf"<({pattern})>", entry[2]) for entry in PLANTED), library)

    def test_the_command_fails_on_a_violation_and_on_an_empty_tree(self):
        for files, code in ((SOUND, 0), ({**SOUND, "common/base/x.h": "#pragma once\n#if 1\n"}, 1), ({}, 1)):
            with tempfile.TemporaryDirectory() as folder:
                build(folder, files)
                ran = subprocess.run([sys.executable, "-B", tidy.__file__, "--root", folder], capture_output=True, text=True)
                self.assertEqual(ran.returncode, code, ran.stdout)


if __name__ == "__main__":
    unittest.main()
