#!/usr/bin/python3
"""Checks that what documents name exists: every `Class::Method`, every identifier with a capital letter, every path.

    architecture_test.py [--root DIR]     prints what does not exist as file:line: what; without arguments, also tests itself

ARCHITECTURE.md, docs/explanation/design/, docs/reference/glossary.md and the README.md of each room are read for names and for
paths, every other document for paths and links only.
A name counts as existing where the sources have it as a word. `Class::Member` has to be written so in a source, or to be a word
in the body of that class or of one that it derives from; `Class.member` of Python has to be in a file that has both words.
"""
import argparse
import os
import re
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True

SOURCES = (".h", ".cc", ".cu", ".c", ".capnp", ".py")
NAMED = re.compile(r"(ARCHITECTURE\.md|docs/explanation/design/.*\.md|docs/reference/glossary\.md|\w+/README\.md)$")
SKIPPED = {".git", "build", "runs", "__pycache__", ".cache"}

FENCE = re.compile(r"^```.*?^```$|<!-- file: .*? -->", re.M | re.S)  # code, and the name of a file for the reader to write
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
# Matches the name of a file with one of these extensions, with or without folders; not a pattern, an address or a URL.
FILE = re.compile(r"(?<![\w*<>{}$/.:-])((?:[\w.-]+/)*[\w-]+\.(?:md|h|cc|cu|capnp|py))(?![\w*/-])")
QUALIFIED = re.compile(r"\b([A-Za-z_]\w*)((?:(?:::|\.)[A-Za-z_]\w*)+)")
WORD = re.compile(r"[A-Za-z_]\w*")
CLASS = re.compile(r"\b(?:class|struct|enum(?: class)?|union)\s+(?:(?:\[\[.*?\]\]|[A-Z_]+)\s+)?(\w+)(?:<[^{};]*>)?(?:\s+final)?\s*(?::([^{};()]*))?\{")
MEMBER = re.compile(r"(?=\b(\w+)(?:<[\w:, ]*>)?::~?(\w+))")
NAMESPACE = re.compile(r"^(?:inline )?namespace ([\w:]+)", re.M)
NAME = re.compile(r"[\w:.]+(?:<\w+>)?(?:\([\w:, &*]*\))?$")  # else the span is a command, a line of code or a value

# Names of files that stand for any file, or for one of a reader's own.
ANY_FILE = {"source.cc", "train.py"}


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def body_at(text, start):
    """Returns the text from `start`, which is behind an opening brace, to the brace that closes it."""
    depth = 1
    for match in re.compile("[{}]").finditer(text, start):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return text[start:match.start()]
    return text[start:]


class Members:
    """Which names belong to which class or namespace of the C++ sources."""

    def __init__(self):
        self.words, self.bases, self.written, self.namespaces = {}, {}, set(), set()

    def add(self, text):
        text = re.sub(r"//[^\n]*", "", text)
        self.written.update(MEMBER.findall(text))
        for names in NAMESPACE.findall(text):
            self.namespaces.update(names.split("::"))
        for match in CLASS.finditer(text):
            name, bases = match.groups()
            self.words.setdefault(name, set()).update(WORD.findall(body_at(text, match.end())))
            self.bases.setdefault(name, set()).update(WORD.findall(bases or ""))

    def have(self, owner, name, seen=()):
        if (owner, name) in self.written or name in self.words.get(owner, ()):
            return True
        return any(self.have(base, name, (*seen, owner)) for base in self.bases.get(owner, ()) if base not in seen)


class Tree:
    """The files of a tree, which words each source has, and which members each class."""

    def __init__(self, root):
        self.documents, self.paths, self.words, self.names, self.folders = {}, set(), {}, set(), set()
        self.members = Members()
        for folder, folders, files in os.walk(root):
            folders[:] = sorted(name for name in folders if name not in SKIPPED)
            self.folders.update(os.path.relpath(os.path.join(folder, name), root) for name in folders)
            for name in sorted(files):
                path = os.path.relpath(os.path.join(folder, name), root)
                self.paths.add(path)
                self.names.add(name)
                if name.endswith(".md"):
                    self.documents[path] = read(os.path.join(root, path))
                elif name.endswith(SOURCES) and path != os.path.join("tests", "tidy", "architecture_test.py"):
                    text = read(os.path.join(root, path))
                    self.words[path] = set(WORD.findall(text))
                    if not name.endswith(".py"):
                        self.members.add(text)
        self.all_words = set().union(*self.words.values()) if self.words else set()

    def has(self, *words):
        """Whether one source has all of these words."""
        return any(all(word in found for word in words) for found in self.words.values())

    def has_member(self, *parts):
        """Whether B is in A and C in B, for parts A, B, C. A namespace is taken to hold every word of the sources."""
        for owner, name in zip(parts, parts[1:]):
            if not self.members.have(owner, name) and not (owner in self.members.namespaces and name in self.all_words):
                return False
        return True

    def has_file(self, path, near):
        """Whether `path` names a file: from the root, from the folder of the document `near`, or as the end of a path."""
        beside = os.path.normpath(os.path.join(os.path.dirname(near), path))
        if path in self.paths or beside in self.paths:
            return True
        return path in self.names if "/" not in path else any(other.endswith("/" + path) for other in self.paths)


    def lacks(self, span):
        """Whether `span` is a path below a folder of the root, and nothing is there."""
        path = span.rstrip("/")
        return (re.fullmatch(r"[\w./-]+", span) is not None and "/" in span and path.split("/")[0] in self.folders and
                path not in self.paths and path not in self.folders)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def headings_of(text):
    """Returns the names of the headings in links, as GitHub makes them."""
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.*)$", text, re.M)]


def missing_names(tree, span):
    """Yields those names in a span (text between back ticks) that no source has."""
    if not NAME.match(span) or FILE.fullmatch(span):
        return
    rest = span
    for match in QUALIFIED.finditer(span):
        parts = re.split(r"::|\.", match.group(0))
        rest = rest.replace(match.group(0), " ")
        if parts[0][0].islower() and "::" not in match.group(0):
            continue  # optimizer.step, cluster.servers: a key, or a call of another library
        if not (tree.has_member(*parts) if "::" in match.group(0) else tree.has(*parts)):
            yield match.group(0)
    for word in WORD.findall(rest):
        if re.search("[A-Z]", word) and word not in tree.all_words:
            yield word


def problems(root):
    tree = Tree(root)
    found = []
    for path, text in tree.documents.items():
        prose = FENCE.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)
        for match in LINK.finditer(prose):
            target, heading = match.groups()
            beside = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
            if "://" in target:
                continue
            if not os.path.exists(os.path.join(root, beside)):
                found.append((path, line_of(prose, match.start()), f"the link leads to {beside}, which does not exist"))
            elif heading and heading not in headings_of(tree.documents.get(beside, "")):
                found.append((path, line_of(prose, match.start()), f"{beside} has no heading {heading}"))
        for match in FILE.finditer(LINK.sub("", prose)):
            if match.group(1) not in ANY_FILE and not tree.has_file(match.group(1), path):
                found.append((path, line_of(prose, match.start()), f"{match.group(1)} is no file of this tree"))
        for match in SPAN.finditer(prose):
            if tree.lacks(match.group(1)) and not FILE.fullmatch(match.group(1)):
                found.append((path, line_of(prose, match.start()), f"{match.group(1)} is nothing in this tree"))
        if not NAMED.match(path):
            continue
        for match in SPAN.finditer(prose):
            for name in missing_names(tree, match.group(1)):
                found.append((path, line_of(prose, match.start()), f"`{name}` is in no source"))
    return sorted(found)


SOUND = {
    "ARCHITECTURE.md": "`Shard::Stage`, `Shard::Tick` and `Shard::On(Push)` are in `shard.h`; see [the design](docs/explanation/design/a.md).\n"
                       "`job.steps`, `capstan launch X.toml` and `a = \"B\"` name nothing.\n\n```\n`Nowhere::AtAll`\n```\n",
    "docs/explanation/design/a.md": "Back to [the start](../../../ARCHITECTURE.md), `server/shard.h`, `Trainer.step`.\n",
    "docs/explanation/modes.md": "`Unknown` is no business of this check; `metrics.jsonl` is of a run.\n\n<!-- file: own.py -->\n",
    "server/shard.h": "struct Push;\nclass Base { void Tick() {} };\n"
                      "class Shard final : public Base { void Stage(); void On(Push); };\n"
                      "struct Store { Shard* shard; void Save(); };\n",
    "worker/trainer.py": "class Trainer:\n    def step(self): ...\n",
}
PLANTED = [
    ("ARCHITECTURE.md", "`Shard::Unstage` undoes it.\n", "Shard::Unstage"),
    ("ARCHITECTURE.md", "`Shard::Save` is another's.\n", "Shard::Save"),
    ("ARCHITECTURE.md", "`Shard::On(Pull)` answers.\n", "Pull"),
    ("ARCHITECTURE.md", "A line.\n\n`Sharder` is new.\n", "Sharder"),
    ("ARCHITECTURE.md", "`Trainer.leap` is new.\n", "Trainer.leap"),
    ("docs/explanation/design/b.md", "`kNowhere` is a limit.\n", "kNowhere"),
    ("docs/reference/glossary.md", "| slot | `SlotNumber` |\n", "SlotNumber"),
    ("docs/explanation/modes.md", "See `coordinator.h`.\n", "coordinator.h"),
    ("docs/explanation/modes.md", "See worker/shard.h.\n", "worker/shard.h"),
    ("docs/explanation/modes.md", "It is in `server/net/`.\n", "server/net"),
    ("server/README.md", "`Sharder` is new.\n", "Sharder"),
    ("docs/explanation/modes.md", "See DESIGN.md 4.\n", "DESIGN.md"),
    ("docs/explanation/modes.md", "See [the page](design/none.md).\n", "docs/explanation/design/none.md"),
    ("docs/explanation/modes.md", "# Modes\n\nSee [below](#details).\n", "details"),
]


class Architecture(unittest.TestCase):
    maxDiff = None

    def check(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                full = os.path.join(folder, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as file:
                    file.write(text)
            return problems(folder)

    def test_a_sound_tree_has_no_problem(self):
        self.assertEqual(self.check(SOUND), [])

    def test_each_planted_problem_is_named_once(self):
        for path, text, name in PLANTED:
            with self.subTest(path=path, name=name):
                found = self.check({**SOUND, path: text})
                self.assertEqual([entry[0] for entry in found], [path])
                self.assertIn(name, found[0][2])

    def test_the_documents_of_this_tree_name_what_exists(self):
        found = problems(os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))
        self.assertEqual([f"{path}:{line}: {what}" for path, line, what in found], [])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root")
    root = parser.parse_args().root
    if root is None:
        return unittest.main()
    found = problems(os.path.abspath(root))
    for path, line, what in found:
        print(f"{path}:{line}: {what}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
