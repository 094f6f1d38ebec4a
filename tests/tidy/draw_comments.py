#!/usr/bin/python3
"""Prints comments drawn at random, for a reader who has not written them: which of them does a stranger understand?

    draw_comments.py [--seed N] [--count N] [--root DIR]

A block of comment lines is drawn with the code that follows it, from all sources of product and tests. The reader rates each
clear (understood at first reading), second (at the second reading) or obscure. Of 60, at least 54 should be clear and none
obscure.
"""
import argparse
import os
import random
import re
import sys

FOLDERS = ("bench", "cli", "common", "examples", "kernels", "monitoring", "server", "tests", "update", "worker")
SOURCES = (".h", ".cc", ".cu", ".c", ".py")
LINE = re.compile(r"^\s*(//|#(?!!|include|pragma|define|if|endif|else|undef))")
CODE_LINES = 4  # shown below a comment


def comments_of(path, text):
    """Yields (path, first line's number, lines of the comment, lines of code below) for each comment of four words or more.

    Directives of tools (NOLINT, clang-format) are left out.
    """
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        if not LINE.match(lines[at]):
            at += 1
            continue
        first = at
        while at < len(lines) and LINE.match(lines[at]):
            at += 1
        block = lines[first:at]
        words = re.findall(r"[A-Za-z]{2,}", " ".join(block))
        if len(words) >= 4 and "NOLINT" not in block[0] and "clang-format" not in block[0]:
            yield path, first + 1, block, lines[at:at + CODE_LINES]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    arguments = parser.parse_args()
    found = []
    for top in FOLDERS:
        for folder, folders, files in os.walk(os.path.join(arguments.root, top)):
            folders.sort()
            for name in sorted(files):
                if name.endswith(SOURCES):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        found.extend(comments_of(os.path.relpath(path, arguments.root), file.read()))
    drawn = random.Random(arguments.seed).sample(found, min(arguments.count, len(found)))
    for number, (path, line, block, code) in enumerate(drawn, 1):
        print(f"---- {number}  {path}:{line}")
        print("\n".join(block + code))
    print(f"---- {len(drawn)} of {len(found)} comments")
    return 0


if __name__ == "__main__":
    sys.exit(main())
