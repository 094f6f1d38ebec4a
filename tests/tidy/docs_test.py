#!/usr/bin/python3
"""The scripts of the documentation: the site's navigation, the pages of the reference, and the recorded demo."""
import ast
import collections
import importlib.machinery
import importlib.util
import os
import re
import sys
import unittest
import xml.dom.minidom

sys.dont_write_bytecode = True
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
SCRIPTS = os.path.join(ROOT, "scripts")
sys.path.insert(0, SCRIPTS)


def script(name):
    """Loads a script as a module."""
    loader = importlib.machinery.SourceFileLoader(name.replace("-", "_"), os.path.join(SCRIPTS, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


docs, record_demo = script("docs"), script("record-demo")
import header_page
import python_page


class NavigationTest(unittest.TestCase):
    PAGES = {"README.md": "# Home\n", "ARCHITECTURE.md": "# A\n", "CONTRIBUTING.md": "# C\n", "SECURITY.md": "# S\n",
             "docs/how-to/README.md": "# How-to\n[b](zebra.md), [a](ant.md)\n", "docs/how-to/ant.md": "# Ant\n",
             "docs/how-to/zebra.md": "# Zebra\n", "docs/how-to/new.md": "# New\n", "docs/explanation/page.md": "# Page\n",
             "docs/explanation/design/deep.md": "# Deep\n", "server/README.md": "# server\n"}

    def test_each_page_of_this_tree_is_there_once(self):
        pages = docs.markdown_files()
        counted = collections.Counter(docs.paths_of(docs.navigation(pages)))
        self.assertEqual(counted, dict.fromkeys(pages, 1))

    def test_a_folders_readme_gives_the_order_and_other_pages_follow(self):
        parts = dict(list(part.items())[0] for part in docs.navigation(self.PAGES))
        self.assertEqual(parts["How to"], ["docs/how-to/README.md", "docs/how-to/zebra.md", "docs/how-to/ant.md", "docs/how-to/new.md"])
        self.assertEqual(parts["Explanation"], ["docs/explanation/page.md", {"Design": ["docs/explanation/design/deep.md"]}])

    def test_runbooks_appear_when_there_are_some(self):
        titles = [list(part)[0] for part in docs.navigation({**self.PAGES, "docs/runbooks/slow.md": "# Slow\n"})]
        self.assertEqual(titles, ["capstan", "How to", "Runbooks", "Explanation", "Source"])


class IdiomsTest(unittest.TestCase):
    """The table of docs/how-to/pytorch-idioms.md."""

    FILE = "torch_idioms_test.py"  # which a row need not name
    FILES = (FILE, "torch_launchers_test.py")  # each of their tests has a row

    def setUp(self):
        with open(os.path.join(ROOT, "docs", "how-to", "pytorch-idioms.md"), encoding="utf-8") as file:
            lines = [line for line in file if line.startswith("| ")]
        self.rows = [re.split(r" *\| *", line.strip()[1:-1].strip()) for line in lines if not line.startswith("| in the script")]

    def names_in(self, name):
        """The tests of a file in tests/e2e, as Class.test."""
        with open(os.path.join(ROOT, "tests", "e2e", name), encoding="utf-8") as file:
            tree = ast.parse(file.read())
        return {f"{group.name}.{test.name}" for group in tree.body if isinstance(group, ast.ClassDef)
                for test in group.body if isinstance(test, ast.FunctionDef) and test.name.startswith("test_")}

    def test_each_row_names_its_test_and_each_test_has_a_row(self):
        self.assertGreater(len(self.rows), 30)
        named = set()
        for row in self.rows:
            self.assertEqual(len(row), 4, row)
            words = re.findall("`([^`]+)`", row[3])
            file, test = words if len(words) == 2 else (self.FILE, *words)
            self.assertIn(test, self.names_in(file), row)
            named.add((file, test))
        for name in self.FILES:
            self.assertEqual({test for file, test in named if file == name}, self.names_in(name))

    def test_the_words_of_each_refusal_are_in_a_message(self):
        package = os.path.join(ROOT, "worker", "python", "capstan")
        files = [os.path.join(package, "torch", name) for name in sorted(os.listdir(os.path.join(package, "torch")))]
        sources = []
        for path in [os.path.join(package, "place.py"), *files]:
            if path.endswith(".py"):
                with open(path, encoding="utf-8") as file:
                    sources.append(re.sub(r"""["']\s*\n\s*f?["']""", "", file.read()))
        text = "\n".join(sources)
        for row in self.rows:
            words = re.match('"([^"]+)"', row[2].strip())
            if "refused" in row[1]:
                self.assertIsNotNone(words, row)
            if words is not None:
                self.assertIn(words.group(1), text, row)


HEADER = """\
// Thing: does <things>.
//
// Kind:  a value.
// Use:
//   Thing thing;
//     thing.Do(1);
#pragma once

namespace capstan {

// A list of options.

struct Options {
  int a = 0;  // first
};

// Does *things*.
class [[gnu::visibility("default")]] Thing {
 public:
  static constexpr int kMost = 3;
  // Does one thing,
  // slowly.
  virtual int Do(int count,
                 int more) = 0;
  virtual int Undo() = 0;
};

}  // namespace capstan
"""


class ReferenceTest(unittest.TestCase):
    def test_a_header_becomes_text_and_code(self):
        page = header_page.page("Title", HEADER, "cpp")
        self.assertEqual([line for line in page.splitlines() if line.startswith("#")],
                         ["# Title", "## Options", "## Thing", "### Thing::kMost", "### Thing::Do", "### Thing::Undo"])
        self.assertIn("Thing: does \\<things\\>.\n- **Kind**: a value.", page.replace("\n\n-", "\n-"))
        self.assertIn("```cpp\nThing thing;\n  thing.Do(1);\n```", page)
        self.assertIn("## Thing\n\nDoes \\*things\\*.\n", page)
        self.assertIn("### Thing::Do\n\nDoes one thing, slowly.\n\n```cpp\nvirtual int Do(int count,\n", page)
        self.assertNotIn("A list of options", page)  # no declaration follows that comment

    def test_each_public_function_and_class_has_a_heading(self):
        with open(os.path.join(ROOT, "docs", "reference", "c.md"), encoding="utf-8") as file:
            headings = [line[3:].strip() for line in file if line.startswith("## ")]
        self.assertEqual(len(headings), len(set(headings)))
        for name in ("capstan_connect", "capstan_end_slot", "capstan_reader_pull", "capstan_options"):
            self.assertIn(name, headings)

    def test_each_exported_name_of_python_is_on_its_page(self):
        for name, folder in (("capstan", "capstan"), ("capstan.torch", "capstan/torch")):
            package = python_page.Package(os.path.join(ROOT, "worker", "python", folder), name)
            page = python_page.page(package)
            for _, node in package.exported():
                self.assertIn(f"\n## {node.name}\n", page)


class RecordingTest(unittest.TestCase):
    def rows(self, text):
        screen = record_demo.Screen(80)
        screen.write(text)
        return ["".join(character for character, _ in line) for line in screen.rows()]

    def test_a_line_that_is_written_again_replaces_the_old_one(self):
        self.assertEqual(self.rows("step 10\r\x1b[Kstep 2\r\nend"), ["step 2", "end"])
        self.assertEqual(self.rows("abc\rx"), ["xbc"])

    def test_the_cursor_moves_up_and_the_rest_is_cleared(self):
        self.assertEqual(self.rows("one\r\ntwo\r\nthree\x1b[2A\r\x1b[Jnew"), ["new"])

    def test_a_line_that_is_too_long_goes_on_in_the_next_row(self):
        self.assertEqual(self.rows("a" * 85 + "\r\nb"), ["a" * 80, "aaaaa", "b"])

    def test_colours_are_kept_as_classes(self):
        screen = record_demo.Screen(80)
        screen.write("\x1b[1;31mbad\x1b[0m good")
        self.assertEqual(record_demo.text_of(screen.rows()[0]), '<tspan class="bold red">bad</tspan> good')

    def test_other_control_sequences_show_nothing(self):
        self.assertEqual(self.rows("\x1b]0;title\x07a\x1b[?25lb\x1b[38;5;9mc"), ["abc"])

    def test_a_line_has_a_rule_for_the_time_in_which_it_is_shown(self):
        frames = [[(("a", ""),)], [(("b", ""),)], [(("b", ""),), (("c", ""),)]]
        times = record_demo.Times(frames)
        texts = list(record_demo.text_elements(frames, times))
        self.assertEqual(len(texts), 3)
        self.assertIn('class="gone"', texts[0])
        self.assertNotIn('class="gone"', texts[1] + texts[2])
        self.assertEqual(len(times.rules), 3)

    def test_the_recorded_demo_is_small_and_well_formed(self):
        path = os.path.join(ROOT, "docs", "images", "demo.svg")
        self.assertLess(os.path.getsize(path), record_demo.BYTES_MAX)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        xml.dom.minidom.parseString(text)
        self.assertIn("prefers-color-scheme:dark", text)
        self.assertIn("the same bits", text)


if __name__ == "__main__":
    unittest.main()
