"""The common part of scripts/bundle and scripts/build-wheel: the shared libraries of a program, the checks that it runs elsewhere, and
the licences of what it contains."""
import os
import re
import subprocess
import sys

# Every machine has its own version of these.
OF_THE_SYSTEM = re.compile(r"(linux-vdso|ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libresolv|libutil|libanl|"
                           r"libnss_\w+|libstdc\+\+|libgcc_s|libcuda|libnvidia-\S+)\.so")
# Versions on the oldest supported system, Debian 12.
NEWEST = {"GLIBC": (2, 36), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0)}
# Packages of which headers or a static library are compiled into our programs.
COMPILED_IN = ["libzmq3-dev", "cppzmq-dev", "libtomlplusplus-dev", "nlohmann-json3-dev", "libcli11-dev", "libboost-dev",
               "libxxhash-dev"]


def fail(text):
    sys.exit(f"{os.path.basename(sys.argv[0])}: {text}")


def run(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def libraries_of(path):
    """Returns name -> path of the shared libraries to include for this program."""
    found = {}
    for line in run("ldd", path).splitlines():
        match = re.match(r"\s+(\S+)(?: => (.*?))?(?: \(0x\w+\))?$", line)
        if not match or OF_THE_SYSTEM.match(os.path.basename(match[1])):
            continue
        if not match[2] or match[2] == "not found":
            fail(f"{path} needs {match[1]}, which this machine does not have; run scripts/install-deps")
        found[match[1]] = os.path.realpath(match[2])
    return found


def stripped(path, folder):
    """Returns the bytes of a program or library without symbols. `folder`: for temporary files."""
    copy = os.path.join(folder, "stripped")
    run("strip", "--strip-unneeded", "-o", copy, path)
    with open(copy, "rb") as file:
        return file.read()


def check_symbols(path):
    """Exits with a message if the program needs a newer system than the oldest supported one."""
    for name, version in re.findall(r"\((GLIBC|GLIBCXX|CXXABI|GCC)_([\d.]+)\)", run("objdump", "-T", path)):
        if tuple(map(int, version.split("."))) > NEWEST[name]:
            fail(f"{path} needs {name}_{version}; build on Debian 12, which has {NEWEST[name]}")


def check_path(path, folder="$ORIGIN/../lib"):
    """Exits with a message if the program would not find libraries in `folder`."""
    if "RPATH" not in (dynamic := run("readelf", "-d", path)) or f"[{folder}]" not in dynamic:
        fail(f"{path} has no RPATH of {folder}; see capstan_relocatable in CMakeLists.txt")


def package_of(path):
    """Returns the package that has installed this file. Debian's list may have it without /usr in front."""
    for name in (path, path.removeprefix("/usr")):
        asked = subprocess.run(["dpkg-query", "-S", name], capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            return asked.stdout.split(":")[0]
    return fail(f"no package of this machine has {path}, so its licence is not known")


def licences(libraries):
    """Returns package -> bytes of the copyright file, of each package that is in these libraries or in our programs."""
    found = {}
    for package in sorted({package_of(path) for path in libraries} | set(COMPILED_IN)):
        path = f"/usr/share/doc/{package}/copyright"
        if not os.path.exists(path):
            fail(f"{path} is missing, and the licence of {package} is to travel with it: install the package again")
        with open(path, "rb") as file:
            found[package] = file.read()
    return found
