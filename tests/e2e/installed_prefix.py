#!/usr/bin/python3
"""The prefix that tests of an installed capstan share, in the build's folder.

ctest installs it before those tests with this file. A test that is started by hand installs it itself if a built file is
newer than the installed one.

usage: installed_prefix.py --bin FOLDER
"""
import argparse
import fcntl
import functools
import os
import re
import shutil
import subprocess

INSTALLED = re.compile(r"file\(INSTALL [^)]*?FILES([^)]*)\)")  # in the scripts that cmake --install runs


@functools.cache
def prefix(binaries):
    """The prefix into which `cmake --install` has installed this build."""
    return up_to_date(os.path.dirname(binaries))


def up_to_date(build):
    """The prefix of this build, installed again if a built file is newer."""
    folder = os.path.join(build, "prefix")
    with open(folder + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in parallel
        if written_at(installed_at(folder)) <= newest_source(build):
            install(build, folder)
    return folder


def install(build, folder):
    """Installs into an empty folder, so files that are no longer installed are not there."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run(["cmake", "--install", build, "--prefix", folder], check=True, stdout=subprocess.DEVNULL)
    with open(installed_at(folder), "w", encoding="ascii"):
        pass


def installed_at(folder):
    return os.path.join(folder, ".installed")


def written_at(path):
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return 0


def newest_source(build):
    """Returns when the newest of the install scripts, and of the files that they name, was written."""
    newest = 0
    for script in scripts_of(build):
        with open(script, encoding="utf-8") as file:
            named = [path for files in INSTALLED.findall(file.read()) for path in re.findall(r'"(/[^"]*)"', files)]
        newest = max([newest, written_at(script), *(written_at(path) for name in named for path in tree_of(name))])
    return newest


def scripts_of(build):
    """Returns the build's cmake_install.cmake and the scripts that it includes."""
    found = [os.path.join(build, "cmake_install.cmake")]
    for script in found:
        with open(script, encoding="utf-8") as file:
            found.extend(re.findall(r'include\("(.*)"\)', file.read()))
    return found


def tree_of(path):
    yield path
    for folder, _, names in os.walk(path):
        yield folder
        yield from (os.path.join(folder, name) for name in names)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True, help="folder of the binaries")
    prefix(os.path.abspath(parser.parse_args().bin))


if __name__ == "__main__":
    main()
