"""Runs the fenced blocks of Markdown files as a reader would run them.

The blocks of a file run in order, in one scratch folder that has the links `examples`, `scripts` and `build/release`, with
an installed capstan on the PATH. By their kind:

    sh       run by bash; it fails if a command fails
    toml     loaded by `capstan launch --print-config`; missing keys of a whole job are added
    python   run, with the installed package
    c, cpp   compiled against the installed headers
    cmake    configured against the installed package, with empty sources
    yaml     a prometheus.yml, which promtool checks

Comments directly above a block give exceptions:

    <!-- not run: why -->         it is left out; a kind that is not in the list needs this
    <!-- fails: why -->           it is run, and must fail
    <!-- whole: why -->           its jobs have all of their steps; those of other blocks are shortened
    <!-- file: NAME -->           it is also written into the scratch folder; Python is then compiled, and not run
    <!-- with: ... -->            lines to put before it

Port 29600 stands for a free one. Pages that scripts/reference writes are compared with their source, and not run.
"""
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from dataclasses import dataclass, field

import harness

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
STEPS = 60  # jobs of blocks are shortened to this
MORE_STEPS = 120  # or to this, if a block itself sets job.steps
# The keys that every job file needs, and values for blocks that lack them.
NEEDED = {"job.steps": "10", "job.global_batch": "16", "model.kind": "mlp", "data.kind": "synthetic"}
PORT = "29600"  # of a coordinator in the documents
MARKS = ("not run", "fails", "whole", "file", "with", "written")
CAPSTAN = """\
#!/bin/sh
[ -z "${{WHOLE_JOBS-}}" ] || exec {program} "$@"
for word do
  shift
  case $word in job.steps=*) word=job.steps={more_steps} ;; esac
  set -- "$@" "$word"
done
case "${{1-}} ${{2-}}" in
  'snapshot import') shift 2; exec {program} snapshot import --set job.steps={steps} "$@" ;;
  launch*) shift; exec {program} launch --set job.steps={steps} "$@" ;;
esac
exec {program} "$@"
"""


class Broken(AssertionError):
    """A block that does not do what its document claims."""


@dataclass
class Block:
    where: str  # file:line
    kind: str
    text: str = ""
    marks: dict[str, str] = field(default_factory=dict)


def blocks_of(name, text):
    """Returns the blocks of a document in order. `name`: the document's name in messages."""
    blocks, marks, open_block, comment = [], {}, None, None
    for number, line in enumerate(text.splitlines(), start=1):
        if open_block is not None:
            if line.strip() == "```":
                open_block = None
            else:
                open_block.text += line + "\n"
        elif comment is not None or line.startswith("<!--"):
            comment = line if comment is None else comment + "\n" + line
            if comment.rstrip().endswith("-->"):
                add_mark(marks, comment, f"{name}:{number}")
                comment = None
        elif line.lstrip().startswith("```"):
            open_block = Block(f"{name}:{number}", line.strip().lstrip("`"), marks=marks)
            blocks.append(open_block)
            marks = {}
        else:
            marks = {}
    if open_block is not None:
        raise Broken(f"{open_block.where}: the block has no end")
    return blocks


def add_mark(marks, comment, where):
    name, colon, value = re.sub(r"^<!--\s*|\s*-->\s*$", "", comment).partition(":")
    if not colon or name not in MARKS:
        raise Broken(f'{where}: unknown comment "{name}"; wanted one of {", ".join(MARKS)}, a colon and a text')
    if not value.strip():
        raise Broken(f'{where}: the comment "{name}" says nothing behind its colon')
    marks[name] = value.strip() + ("\n" if name == "with" else "")


class Reader:
    """Runs blocks in a scratch folder."""

    def __init__(self, folder, prefix, build):
        self.folder, self.prefix = folder, prefix
        self.count, self.left_out = 0, []  # how many blocks were run, and why others were not
        self.port = harness.free_port()
        for name, target in (("examples", os.path.join(ROOT, "examples")), ("scripts", os.path.join(ROOT, "scripts")),
                             ("build/release", build)):
            os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            os.symlink(target, self.path(name))
        os.makedirs(self.path("home"))
        program = self.write("programs/capstan", CAPSTAN.format(
            steps=STEPS, more_steps=MORE_STEPS, program=shlex.quote(os.path.join(prefix, "bin", "capstan"))))
        os.chmod(program, 0o755)
        self.environment = {
            **os.environ, "HOME": self.path("home"), "OMP_NUM_THREADS": "1",
            "PATH": ":".join([self.path("programs"), os.path.join(prefix, "bin"), "/usr/bin", "/bin"]),
            "PYTHONPATH": os.path.join(prefix, "lib", "python3", "dist-packages"), "PYTHONDONTWRITEBYTECODE": "1"}

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def run(self, block):
        """Raises Broken if the block fails."""
        if "not run" in block.marks:
            self.left_out.append(block.marks["not run"])
            return
        run = getattr(self, f"run_{block.kind}", None) if block.kind else None
        if run is None:
            raise Broken(f'{block.where}: a block of kind "{block.kind}" cannot be run; write a line above it with the '
                         "reason: <!-- not run: why -->")
        self.count += 1
        block.text = (block.marks.get("with", "") + block.text).replace(PORT, str(self.port))
        if "file" in block.marks:
            self.write(block.marks["file"], block.text)
        run(block)

    def command(self, block, *command, folder="."):
        environment = {**self.environment, "WHOLE_JOBS": "yes" if "whole" in block.marks else ""}
        ran = subprocess.run(command, cwd=self.path(folder), env=environment, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                             timeout=harness.DEADLINE, check=False)
        if (ran.returncode != 0) != ("fails" in block.marks):
            raise Broken(f"{block.where}: exit code {ran.returncode}\n{block.text}\n{ran.stdout}")

    def run_sh(self, block):
        self.command(block, "bash", "-euo", "pipefail", "-c", block.text)

    def run_toml(self, block):
        try:
            has = tomllib.loads(block.text)
        except tomllib.TOMLDecodeError as error:
            raise Broken(f"{block.where}: {error}") from None
        is_client = has.get("model", {}).get("kind") == "client"
        missing = [f"{key}={value}" for key, value in NEEDED.items()
                   if key.split(".")[1] not in has.get(key.split(".")[0], {}) and not (is_client and key == "data.kind")]
        job = self.write(f"block-{self.count}.toml", block.text)
        self.command(block, os.path.join(self.prefix, "bin", "capstan"), "launch", job, "--print-config",
                     *(word for setting in missing for word in ("--set", setting)))

    def run_python(self, block):
        if "file" in block.marks:
            try:
                compile(block.text, block.where, "exec")
            except SyntaxError as error:
                raise Broken(f"{block.where}: {error}") from None
        else:
            self.command(block, "/usr/bin/python3", self.write(f"block-{self.count}.py", block.text))

    def run_yaml(self, block):
        self.command(block, "promtool", "check", "config", "--syntax-only", self.write(f"block-{self.count}.yml", block.text))

    def run_cpp(self, block):
        self.compile(block, "g++", "-std=c++20", self.write(f"block-{self.count}.cc", block.text))

    def run_c(self, block):
        self.compile(block, "gcc", "-std=c11", self.write(f"block-{self.count}.c", block.text))

    def compile(self, block, *command):
        self.command(block, *command, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", f"-I{self.prefix}/include")

    def run_cmake(self, block):
        folder = f"block-{self.count}"
        self.write(f"{folder}/CMakeLists.txt", block.text)
        for source in re.findall(r"[\w/]+\.(?:c|cc)\b", block.text):
            self.write(f"{folder}/{source}", "")
        self.command(block, "cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", folder=folder)
        shutil.rmtree(self.path(folder, "build"))


def documents():
    """Returns the texts of all documents for users, by their paths from the root, except those that a script writes."""
    names = ["README.md"]
    for folder, folders, files in os.walk(os.path.join(ROOT, "docs")):
        folders.sort()
        names += sorted(os.path.relpath(os.path.join(folder, name), ROOT) for name in files if name.endswith(".md"))
    found = {}
    for name in names:
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            text = file.read()
        if "\n<!-- written: " not in text:
            found[name] = text
    return found
