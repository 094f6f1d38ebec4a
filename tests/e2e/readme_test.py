#!/usr/bin/python3
"""README.md and docs/: every block is run or has a reason why not, and the reference says what the programs and sources
do. (architecture_test has the links.)"""
import collections
import os
import re
import subprocess
import tempfile
import tomllib
import unittest

import documents
import harness
import installed_prefix
import skips

BUILD = PREFIX = None


def setUpModule():
    global BUILD, PREFIX
    BUILD = os.path.dirname(harness.BIN)
    PREFIX = installed_prefix.prefix(harness.BIN)


def new_reader(test):
    folder = tempfile.TemporaryDirectory(prefix="capstan-readme-")
    test.addCleanup(folder.cleanup)
    return documents.Reader(folder.name, PREFIX, BUILD)


def run_all(reader, name, text):
    for block in documents.blocks_of(name, text):
        reader.run(block)


class DocumentsTest(unittest.TestCase):
    def test_every_block_does_what_its_document_says(self):
        skips.need(self, "numpy")
        run, left_out = 0, []
        for name, text in documents.documents().items():
            reader = new_reader(self)
            for block in documents.blocks_of(name, text):
                with self.subTest(block.where):
                    reader.run(block)
            run, left_out = run + reader.count, left_out + reader.left_out
        print(f"{run} of {run + len(left_out)} blocks are run; not run:", flush=True)
        for reason, count in collections.Counter(left_out).most_common():
            print(f"  {count} {reason}", flush=True)


class GeneratedPagesTest(unittest.TestCase):
    def test_the_reference_is_what_its_sources_say(self):
        checked = subprocess.run([os.path.join(documents.ROOT, "scripts", "reference"), "--check", "--bin", harness.BIN],
                                 capture_output=True, text=True, timeout=harness.DEADLINE, check=False)
        self.assertEqual((checked.stdout, checked.returncode), ("", 0), checked.stderr)


class BrokenBlocksTest(unittest.TestCase):
    """Tests the test of the documents: it accepts good blocks and refuses broken ones."""

    GOOD = {
        "sh": "capstan --version",
        "toml": "[optimizer]\nkind = \"lamb\"",
        "python": "import capstan\ncapstan.connect",
        "c": "#include <capstan/capstan.h>\ncapstan_code code;",
        "cpp": "#include <capstan/client.h>\ncapstan::Status status;",
        "cmake": "cmake_minimum_required(VERSION 3.18)\nproject(one LANGUAGES CXX)\nfind_package(capstan 0.1 REQUIRED)\n"
                 "add_executable(one one.cc)\ntarget_link_libraries(one PRIVATE capstan::client)",
        "yaml": "scrape_configs: [{job_name: one, static_configs: [{targets: ['127.0.0.1:1']}]}]",
    }
    BROKEN = {
        "sh": ["capstan lunch", "capstan --version | grep nothing | cat", "cd nowhere; true"],
        "toml": ["[optimizer]\nkind = \"lamp\"", "[optimizer\n", "[model]\nkind = \"mlp\"\nrecompute = false"],
        "python": ["import capstan\ncapstan.conect", "while"],
        "c": ["#include <capstan/capstan.h>\ncapstan_kode code;"],
        "cpp": ["#include <capstan/client.h>\ncapstan::Client::Connnect();", "#include <capstan/clint.h>"],
        "cmake": ["cmake_minimum_required(VERSION 3.18)\nproject(one LANGUAGES CXX)\nfind_package(capstan 7 REQUIRED)"],
        "yaml": ["scrape_konfigs: []", "scrape_configs: [{job_name: one, http_sd_configs: [{url: nowhere}]}]"],
        "": ["what is this"],
        "perl": ["print 1"],
    }

    def test_good_blocks_pass(self):
        reader = new_reader(self)
        for kind, text in self.GOOD.items():
            with self.subTest(kind):
                run_all(reader, "good.md", f"Words.\n\n```{kind}\n{text}\n```\n")
        self.assertEqual(reader.count, len(self.GOOD))

    def test_a_broken_block_fails_and_is_named(self):
        reader = new_reader(self)
        for kind, texts in self.BROKEN.items():
            for text in texts:
                with self.subTest(kind=kind, text=text), self.assertRaisesRegex(documents.Broken, "^broken.md:3: "):
                    run_all(reader, "broken.md", f"Words.\n\n```{kind}\n{text}\n```\n")

    def test_a_mark_holds_for_the_block_right_under_it(self):
        reader = new_reader(self)
        run_all(reader, "marked.md", "<!-- not run: it is no program -->\n```\nwords\n```\n")
        self.assertEqual(reader.count, 0)
        for between in ("\n", "Words.\n", "```sh\ntrue\n```\n"):
            with self.subTest(between), self.assertRaises(documents.Broken):
                run_all(reader, "far.md", f"<!-- not run: it is no program -->\n{between}```\nwords\n```\n")

    def test_a_block_that_is_to_fail_must_fail(self):
        reader = new_reader(self)
        run_all(reader, "fails.md", "<!-- fails: why -->\n```sh\ncapstan lunch\n```\n")
        self.assertEqual(reader.count, 1)
        with self.assertRaises(documents.Broken):
            run_all(reader, "passes.md", "<!-- fails: why -->\n```sh\ntrue\n```\n")

    def test_marks_without_a_reason_or_a_meaning_fail(self):
        for text in ("<!-- not run: -->\n```\nwords\n```\n", "<!-- not run -->\n```sh\ntrue\n```\n",
                     "<!-- skip: why -->\n```sh\ntrue\n```\n", "```sh\ntrue\n"):
            with self.subTest(text), self.assertRaises(documents.Broken):
                documents.blocks_of("marks.md", text)

    def test_jobs_are_shortened_unless_a_mark_says_otherwise(self):
        launch = "test $(capstan launch examples/digits.toml --print-config | sed -n 's/^steps = //p') = "
        run_all(new_reader(self), "steps.md", f"```sh\n{launch}60\n```\n<!-- whole: why -->\n```sh\n{launch}1500\n```\n")

    def test_the_port_of_the_documents_stands_for_a_free_one(self):
        reader = new_reader(self)
        run_all(reader, "port.md", f"```sh\ntest 29600 = {reader.port}\n```\n")

    def test_reasons_of_blocks_that_are_not_run_are_kept(self):
        reader = new_reader(self)
        run_all(reader, "reasons.md", "<!-- not run: it is no program -->\n```\nwords\n```\n")
        self.assertEqual(reader.left_out, ["it is no program"])

    def test_blocks_share_a_folder_and_their_files(self):
        run_all(new_reader(self), "files.md",
                "<!-- file: one.py -->\n```python\nprint(given + 1)\n```\n"
                "```sh\ngrep -q 'given + 1' one.py; touch two\n```\n```sh\ntest -e two\n```\n"
                "<!-- with:\ngiven = 1\n-->\n<!-- file: three.py -->\n```python\nprint(given)\n```\n"
                "```sh\ntest $(/usr/bin/python3 three.py) = 1\n```\n")


# Parts of job files. Every key of the job file applies in at least one of the combinations below.
MODELS = ("mlp", "convnet", "resnet", "gpt", "client")
DATA = {"text": {"path": "x"}, "tokens": {"path": "x", "vocabulary": 64}, "idx": {"path": "x", "labels": "y"},
        "csv": {"path": "x"}, "cifar10": {"path": "x"}, "synthetic": {}}
OPTIMIZERS = ("sgd", "momentum", "adam", "adamw", "adagrad", "rmsprop", "adadelta", "adamax", "nadam", "radam", "lion", "lars", "lamb",
              "external")
TYPES = {"Text": "text", "Integer": "integer", "Number": "number", "Flag": "true/false", "Choice": "word", "Place": "word",
         "Texts": "texts", "Integers": "integers", "Pair": "two numbers", "Endpoint": "host:port", "Process": "address"}


def keys_of_programs():
    """Returns (section, key) -> (type, words, required), from the list by which the programs read and print job files."""
    with open(os.path.join(documents.ROOT, "common", "config", "job_config_keys.h"), encoding="utf-8") as file:
        source = file.read()
    lists_of_words = re.findall(r"Word<\w+> (k\w+)\[\] = \{(.*?)\};", source, re.S)
    words = {name: re.findall(r'\{"([^"]+)",', text) for name, text in lists_of_words}
    keys, section = {}, None
    for match in re.finditer(r'v\.Begin\("(\w+)"|v\.(\w+)\(\s*\{"(\w+)"(.*?)\);', source, re.S):
        if match[1]:
            section = match[1]
            continue
        lists = [word for name in re.findall(r"\bk\w+\b", match[4]) for word in words.get(name, [])]
        known = keys.setdefault((section, match[3]), (TYPES[match[2]], set(), "Need::kRequired" in match[4]))
        known[1].update(lists)
    return keys


def rows_of_reference():
    """Returns (section, key) -> the cells of its row in docs/reference/job-file.md."""
    rows, section = {}, None
    for line in documents.documents()["docs/reference/job-file.md"].splitlines():
        if heading := re.match(r"## (?:\[(\w+)\])?", line):
            section = heading[1]
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if section and len(cells) == 5 and re.fullmatch(r"`\w+`", cells[0]):
            rows[section, cells[0].strip("`")] = cells
    return rows


class JobFileReferenceTest(harness.JobTest):
    def test_every_key_has_a_row_and_every_row_a_key(self):
        self.assertEqual(set(rows_of_reference()), set(keys_of_programs()))
        self.assertGreater(len(keys_of_programs()), 60)

    def test_rows_name_type_and_words(self):
        rows = rows_of_reference()
        for key, (type_name, words, required) in keys_of_programs().items():
            with self.subTest(".".join(key)):
                self.assertEqual(rows[key][1], type_name)
                for word in words:
                    self.assertIn(f'`"{word}"`', rows[key][4])
                if required and key != ("data", "vocabulary"):
                    self.assertEqual(rows[key][2], "required")

    def test_rows_name_the_defaults_and_the_kinds_that_have_the_key(self):
        rows = rows_of_reference()
        without_default = set(keys_of_programs())
        for printed, given in self.printed_jobs():
            for section, values in printed.items():
                for key, value in values.items():
                    if key in given.get(section, {}) or rows[section, key][2] == "required":
                        without_default.discard((section, key))
                        continue
                    with self.subTest(f"{section}.{key}", job=given):
                        without_default.discard((section, key))
                        default = rows[section, key][2]
                        if default.startswith(("`", "csv", "gpt")):
                            self.assertIn(f"`{shown(value)}`", default)
        self.assertEqual(without_default, {("model", "preset")})

    def printed_jobs(self):
        """Yields, for several jobs, what --print-config prints and what the job file contains."""
        jobs = [({"kind": model}, {"kind": "synthetic", **({"image": [8, 8, 1]} if model in ("convnet", "resnet") else {})})
                for model in MODELS]
        jobs += [({"kind": "gpt" if kind in ("text", "tokens") else "mlp"}, {"kind": kind, **more})
                 for kind, more in DATA.items()]
        jobs = [{"model": model, "data": data} if model["kind"] != "client" else {"model": model} for model, data in jobs]
        jobs += [{"model": {"kind": "mlp"}, "data": {"kind": "synthetic"}, "optimizer": {"kind": kind}} for kind in OPTIMIZERS[:-1]]
        jobs.append({"model": {"kind": "client"}, "optimizer": {"kind": OPTIMIZERS[-1]}})
        jobs += [{"model": {"kind": "mlp"}, "data": {"kind": "synthetic"}, "schedule": {"kind": "cosine"}, "job": {"mode": mode}}
                 for mode in ("sync", "bounded", "async", "allreduce")]
        for job in jobs:
            job["job"] = {"steps": 10, "global_batch": 16, **job.get("job", {})}
            text = "".join(f"[{section}]\n" + "".join(f"{key} = {shown(value)}\n" for key, value in values.items())
                           for section, values in job.items())
            printed = subprocess.run(
                [harness.program("capstan"), "launch", self.write("job.toml", text), "--print-config"],
                capture_output=True, text=True, timeout=harness.DEADLINE, check=False)
            self.assertEqual(printed.returncode, 0, text + printed.stderr)
            yield tomllib.loads(printed.stdout), job


def shown(value):
    """Returns the value as --print-config writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list):
        return "[" + ", ".join(shown(item) for item in value) + "]"
    return str(value)


BUILT = re.compile(r"file\(INSTALL [^)]*?TYPE (?:EXECUTABLE|SHARED_LIBRARY|STATIC_LIBRARY|MODULE)[^)]*? FILES([^)]*)\)")


class InstallTest(harness.JobTest):
    def test_the_demo_builds_all_that_is_installed(self):
        asked = subprocess.run(["ninja", "-C", BUILD, "-t", "query", "capstan_installed"], capture_output=True, text=True,
                               timeout=harness.DEADLINE, check=True)
        built = [os.path.join(BUILD, line.strip()) for line in asked.stdout.splitlines() if line.startswith("    ")]
        for script in installed_prefix.scripts_of(BUILD):
            with open(script, encoding="utf-8") as file:
                files = " ".join(BUILT.findall(file.read()))
            for path in re.findall(r'"([^"]*)"', files):
                self.assertNotIn("emulated", path)  # only tests use it
                self.assertIn(path.partition(".so.")[0] + (".so" if ".so." in path else ""), built)

    def test_an_install_without_the_plug_in_says_so_and_goes_on(self):
        with open(os.path.join(BUILD, "worker", "device", "cmake_install.cmake"), encoding="utf-8") as file:
            text = file.read()
        if "libcapstan_cuda.so" not in text:
            skips.skip(self, "built without nvcc: there is no plug-in for CUDA")
        moved = self.write("install.cmake", text.replace(f"{BUILD}/lib/capstan/libcapstan_cuda.so", self.path("nowhere.so")))
        ran = subprocess.run(["cmake", f"-DCMAKE_INSTALL_PREFIX={self.path('cuda')}", "-P", moved], capture_output=True,
                             text=True, timeout=harness.DEADLINE, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertIn('Left out: the plug-in for device = "cuda"', ran.stdout)


if __name__ == "__main__":
    skips.main()
