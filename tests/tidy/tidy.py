#!/usr/bin/python3
"""Checks those rules of this tree that a program can check: layers, confinement of libraries, cycles, banned words, documents.

    tidy.py [--root DIR]     prints every violation as file:line: [rule] what; exits with 1 if there is one

Needs only Python's standard library. The rules are the tables below; tidy_test.py plants a violation of each.
"""
import argparse
import fnmatch
import os
import re
import sys

# ---------------------------------------------------------------------------------------------------------- the rules

# For each folder, the folders that its files may include from. A file belongs to the longest name here that is a prefix of
# its path. It may include from that folder, and from the listed folders with all folders in them.
LAYERS = {
    "cmake/gloo": [],  # a header that the package of Gloo lacks
    "schema": [],
    "common/include": [],
    "common/base": ["common/include"],
    "common/data": ["common/include", "common/base"],
    "common/config": ["common/base"],
    "common/keys": ["common/base", "common/config"],
    "common/wire": ["schema", "common/include", "common/base", "common/data", "common/keys"],
    "common/flight": ["common/include", "common/base", "common/keys", "common/wire"],
    "kernels": ["common/base", "common/data"],
    "monitoring": ["common"],
    "update": ["common", "kernels"],
    "server/storage": ["common", "monitoring"],
    "server/net": ["common", "monitoring"],
    "server/shard": ["common", "kernels", "monitoring", "update", "server/storage", "server/net"],
    "server/coordinator": ["common", "monitoring", "update", "server/storage", "server/net"],
    "worker/session": ["common"],
    "worker/client": ["common", "worker/session"],
    "worker/collective": ["common", "kernels"],
    "worker/data": ["common"],
    "worker/nn": ["common", "kernels"],
    "worker/machine": ["common", "update", "worker/client", "worker/session", "worker/collective"],
    "worker/device": ["common", "kernels", "worker/collective", "worker/data", "worker/machine", "worker/nn"],
    "worker/allreduce": ["common", "update", "worker/client", "worker/session", "worker/collective", "worker/device"],
    "worker/train": ["common", "kernels", "monitoring", "update", "worker"],
    "worker/python": ["worker/client"],
    "worker/libtorch": ["common", "worker/client", "worker/data"],
    "bench": ["common", "kernels", "monitoring", "update", "server", "worker"],
    "cli": ["common", "kernels", "monitoring", "update", "server", "worker", "bench"],
    "examples": ["common/include", "worker/client", "worker/libtorch", "worker/train"],
    "tests": ["schema", "common", "kernels", "monitoring", "update", "server", "worker", "bench", "cli", "examples"],
}

# The outside libraries: name, pattern of the library's headers, the files that may include them. To include any other
# header is a violation, unless it belongs to C++ (STANDARD) or the operating system (SYSTEM). So a new library begins
# with a line here.
LIBRARIES = [
    ("zmq", r"zmq(\.h|\.hpp|_addon\.hpp)", ["common/wire/zmq_call.h", "bench/*", "tests/*"]),
    ("capnp", r"(capnp|kj)/.*", ["common/wire/wire_codec.cc"]),
    ("prometheus", r"prometheus/.*", ["monitoring/prometheus_text.cc"]),
    ("boost.beast", r"boost/(asio|beast)(/.*|\.hpp)", ["monitoring/byte_stream.*", "monitoring/http_connection.*", "monitoring/http_server.cc", "monitoring/tls_files.*"]),
    ("toml++", r"toml\+\+/.*|toml\.hpp", ["common/config/toml_document.cc"]),
    ("zlib", r"zlib\.h", ["worker/data/*.cc", "tests/*"]),
    ("CLI11", r"CLI/.*", ["cli/command_line.cc"]),
    ("nlohmann", r"nlohmann/.*", ["common/data/safetensors_header.cc", "cli/*", "monitoring/*.cc", "server/storage/*_codec.cc", "server/storage/storage_json.*", "server/coordinator/audit_log.cc", "server/coordinator/history.cc", "server/coordinator/job_status.cc", "server/coordinator/step_log.cc", "server/shard/shard_loop.cc", "bench/device_*", "tests/*"]),
    ("rocksdb", r"rocksdb/.*", ["server/storage/rocks_*", "tests/server/storage/rocks_*"]),
    ("openssl", r"openssl/.*", ["cli/report/sha256_file.cc", "cli/run/http_get.cc", "monitoring/tls_files.cc", "monitoring/token_file.cc"]),
    ("xxhash", r"xxhash\.h", ["common/base/hash.cc"]),
    ("sodium", r"sodium\.h", ["common/keys/*.cc"]),
    ("catch2", r"catch2/.*\.hpp", ["tests/catch.h"]),
    ("cuda", r"cuda_(runtime|bf16|fp16)\.h|mma\.h", ["kernels/cuda/*", "kernels/*_cuda.cu", "kernels/*_cuda_parts.h", "tests/emulation/*", "worker/device/*", "tests/kernels/cuda/*", "tests/worker/device/*", "bench/device_*"]),
    ("cublaslt", r"cublasLt\.h", ["kernels/cuda/cublaslt.h"]),
    ("cudnn", r"cudnn\.h", ["kernels/cuda/cudnn.h"]),
    ("nccl", r"nccl\.h", ["kernels/cuda/nccl.h", "tests/nccl_stand_in/*"]),
    ("gloo", r"gloo/.*", ["worker/collective/gloo_mesh.cc", "worker/collective/gloo_pair.cc", "bench/gloo_allreduce.cc"]),
    ("libtorch", r"(torch|ATen|c10)/.*\.h", ["worker/libtorch/*", "tests/e2e/libtorch_training.cc", "examples/embed/libtorch/*"]),
    ("boost.context", r"boost/context/.*", ["tests/emulation/fiber.cc", "tests/emulation/fiber.h"]),
    ("sanitizer", r"sanitizer/.*", ["tests/emulation/race_detector_tsan.cc"]),
    ("intrinsics", r"(x86|imm|[a-z]mm)intrin\.h|cpuid\.h", ["kernels/*", "common/data/number16.cc"]),
]

# Headers that the build generates, each with the files that may include it.
GENERATED = {"schema/wire.capnp.h": ["common/wire/wire_codec.cc"]}

# The folders of public headers, which are included as <capstan/...>.
PUBLIC = ["common/include", "worker/client/include", "worker/libtorch/include"]

# The pure cores. They have no thread, clock, disk, socket or random source of their own, and include no header that gives
# one.
CORES = ["server/shard/*", "server/coordinator/*", "update/*", "common/wire/weights_reader.*", "worker/session/*",
         "worker/client/reader_core.*", "worker/client/followed_job.*", "worker/client/coordinator_contact.h",
         "worker/client/shard_sources.*", "worker/machine/machine_*", "worker/allreduce/all_reduce_*",
         "worker/allreduce/member_patience.*", "worker/allreduce/replica.*", "worker/allreduce/replica_version.*",
         "worker/allreduce/step_sums.*", "worker/allreduce/version_offers.*"]
# The files of these folders that give a core its thread, its disk or its sockets.
NOT_CORES = ["server/*/*_loop.*", "server/coordinator/final_weights.*", "server/coordinator/step_log.*",
             "server/coordinator/audit_log.*", "server/coordinator/event_file.*", "server/coordinator/line_file.*",
             "server/coordinator/history_files.*", "server/coordinator/run_files.*", "server/coordinator/status_feed.*",
             "worker/session/session_loop.*", "worker/session/wait_times.*", "worker/session/shard_connections.*",
             "worker/machine/machine_reducer.*"]
CORE_HEADERS_BANNED = (r"thread|mutex|shared_mutex|condition_variable|future|fstream|filesystem|iostream|random|ctime|"
                       r"stop_token|semaphore|latch|barrier|unistd\.h|fcntl\.h|poll\.h|(sys|netinet|arpa)/.*")

PRODUCT = ["common/*", "kernels/*", "monitoring/*", "update/*", "server/*", "worker/*", "bench/*", "cli/*"]

# The files that -DCAPSTAN_TRAINER=OFF does not build: the models of capstan-worker and all that trains them. Other product
# files must not include these. tests/e2e/no_trainer_test.py checks the list against a build.
TRAINER = ["kernels/*", "worker/allreduce/*", "worker/collective/*", "worker/data/*", "worker/device/*", "worker/libtorch/*",
           "worker/machine/*", "worker/nn/*", "worker/train/*", "cli/capstan_worker_main.cc", "cli/trainer/built_in_model.cc",
           "cli/trainer/device_facts.cc", "cli/trainer/machine_account.*", "cli/worker_arguments.*", "bench/allreduce_bench.cc", "bench/device_*", "bench/*gloo_allreduce.*",
           "bench/pipe_rendezvous.h", "bench/raw_ring.*", "bench/train_bench.cc"]
# Files of TRAINER's folders that servers use, so every build has them.
NOT_TRAINER = ["kernels/base/elementary.h", "kernels/philox_batch*", "kernels/random_fill.*", "kernels/stream_store.h"]

# Words that are banned in code (comments and strings do not count). Each entry has the rule's name, the pattern, where it
# is banned, the files there that may still use it, and the reason.
WORDS = [
    ("sleep", r"\b(sleep_for|sleep_until|usleep|nanosleep|clock_nanosleep)\b", PRODUCT + ["examples/*", "tests/*"], [],
     "wait for an event with a deadline instead of sleeping"),
    ("environment", r"\b(secure_)?getenv\b|\benviron\b", PRODUCT, ["bench/device_bench.cc", "cli/*", "worker/libtorch/environment.cc"], "only main reads the environment"),
    ("mutex", r"\b(std::(\w*mutex|condition_variable\w*|lock_guard|unique_lock|scoped_lock|shared_lock)|pthread_mutex\w*)\b",
     PRODUCT, ["common/base/mailbox.h", "monitoring/registry.h", "monitoring/registry.cc",
                "worker/collective/gloo_pair.cc"],
     "objects have one owner and talk by message; mutexes live in two files"),
    ("detach", r"\.detach\s*\(\s*\)", PRODUCT + ["tests/*"], [], "a thread is joined by its owner"),
    ("throw", r"\bthrow\b", PRODUCT, [], "our code returns Status"),
    ("singleton", r"\bthread_local\b", PRODUCT, [], "pass it in by constructor"),
    ("random", r"\b(random_device|s?rand|mt19937\w*|default_random_engine)\b", PRODUCT + ["tests/*"],
     ["cli/*", "tests/tier.h"], "draw from common/base/random.h, keyed by the seed"),
    ("core clock", r"\b(steady_clock|system_clock|high_resolution_clock)::now\b|\bclock_gettime\b|\btime\s*\(\s*(NULL|nullptr|0)\s*\)",
     CORES, NOT_CORES, "a core is handed the time"),
]

# The files that may use conditional compilation.
CONDITIONALS = ["worker/client/include/capstan/capstan.h", "common/config/toml_document.cc", "tests/catch.h"]

# Compiler flags that would let a compiler, a machine or a scheduler choose the bits of a weight.
FLAGS_BANNED = r"-ffast-math|-Ofast|-march=native|-mtune=native|-fopenmp|-funsafe-math\S*|-fassociative-math|-ffp-contract=(fast|on)"

LINES_MAX = 600
COLUMNS_MAX = 120  # of a line that is all comment; clang-format cares for the others

# The most fields and methods that a class may have.
FIELDS_MAX = 20
METHODS_MAX = 45
# The classes that may be larger: their numbers of fields and methods, which must not rise, and the reason why each is still
# one class.
LARGE_CLASSES = {
    ("common/wire/messages/view.h", "View"): (21, 0, "a message: its fields are those of the schema"),
    ("server/coordinator/membership.h", "Worker"): (21, 0, "facts about one worker, without rules: what it sent and was sent"),
}

# Tests that write documents of their own, so they name documents that are not in the tree.
DOCUMENTS_FREE = ["tests/tidy/*", "tests/e2e/readme_test.py"]

# ---------------------------------------------------------------------------------------------------- reading sources

CPP = (".h", ".hpp", ".cc", ".cu", ".c")
TEXT = CPP + (".py", ".txt", ".cmake", ".md", ".toml", ".json", ".capnp", ".sh", ".yml", ".yaml", ".service", "")
SKIPPED = {".git", "build", "runs", "__pycache__", ".cache"}

STANDARD = set("""
algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono cinttypes climits
clocale cmath codecvt compare complex concepts condition_variable coroutine csetjmp csignal cstdarg cstddef cstdint cstdio
cstdlib cstring ctime cuchar cwchar cwctype deque exception execution filesystem forward_list fstream functional future
initializer_list iomanip ios iosfwd iostream istream iterator latch limits list locale map memory memory_resource mutex new
numbers numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore set shared_mutex
source_location span sstream stack stdexcept stop_token streambuf string string_view strstream syncstream system_error
thread tuple type_traits typeindex typeinfo unordered_map unordered_set utility valarray variant vector version
assert.h ctype.h errno.h float.h inttypes.h limits.h math.h setjmp.h stdarg.h stdbool.h stddef.h stdint.h stdio.h
stdlib.h string.h time.h
""".split())
SYSTEM = re.compile(r"(sys|netinet|arpa|net|linux)/\w+\.h|"
                    r"(unistd|fcntl|poll|signal|pthread|sched|dlfcn|netdb|dirent|termios|malloc|execinfo|fnmatch|ftw|spawn|pwd)\.h")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.M)
CONDITIONAL = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b[^\n]*", re.M)
NOT_CODE = re.compile(
    r'R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+'"
    r"|//[^\n]*"
    r"|/\*.*?\*/", re.S)
WORK_LEFT = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
DOCUMENT = re.compile(r"(?<![\w./*<>{}$-])((?:[\w.-]+/)*[\w-]+\.md)(?![\w*])")
# Matches paths below folders where people and build machines keep files. Other system folders are the same everywhere.
MACHINE_PATH = re.compile(r"(?<![\w.$})>*-])/(?:home|root|Users|Volumes|mnt|media|scratch|work(?:space|dir)?|builds?|tmp)/[\w.]")


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


class Source:
    """One file: its path from the root and its text; for C++ also its code (comments and strings blanked) and includes."""

    def __init__(self, root, path):
        self.path = path
        with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
            self.text = file.read()
        self.is_cpp = path.endswith(CPP)
        self.is_header = path.endswith((".h", ".hpp"))
        self.code = NOT_CODE.sub(blank, self.text) if self.is_cpp else ""
        self.includes = []  # (line, name, quoted)
        if self.is_cpp:
            for match in INCLUDE.finditer(self.text):
                start = match.start() + match.group(0).index("#")
                if self.code[start] == "#":
                    self.includes.append((self.line(start), match.group(1) or match.group(2), match.group(1) is not None))

    def line(self, offset):
        return self.text.count("\n", 0, offset) + 1

    def one_of(self, patterns):
        return any(fnmatch.fnmatchcase(self.path, pattern) for pattern in patterns)


def read_tree(root):
    sources = {}
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if name not in SKIPPED)
        for name in sorted(files):
            path = os.path.relpath(os.path.join(folder, name), root)
            extension = os.path.splitext(name)[1]
            if extension in TEXT and name != "LICENSE" and name not in SKIPPED and not os.path.islink(os.path.join(root, path)):
                sources[path] = Source(root, path)
    return sources


def layer_of(path):
    found = [layer for layer in LAYERS if path.startswith(layer + "/")]
    return max(found, key=len) if found else None


def resolve(sources, name, quoted):
    """Returns the file of the tree that an include names, or None."""
    if quoted:
        return name if name in sources else None
    return next((f"{folder}/{name}" for folder in PUBLIC if f"{folder}/{name}" in sources), None)


# ------------------------------------------------------------------------------------------------------------- checks
# Each check takes all sources and yields (path, line, rule, message).

def sees(own, other):
    return any(other == layer or other.startswith(layer + "/") for layer in LAYERS[own])


def check_layers(sources):
    for source in sources.values():
        own = layer_of(source.path)
        for line, name, quoted in source.includes:
            if name in GENERATED:
                if not source.one_of(GENERATED[name]):
                    yield source.path, line, "library", f'"{name}" belongs to {", ".join(GENERATED[name])} alone'
                continue
            if quoted and name not in sources:
                yield source.path, line, "include path", f'"{name}" is not a file of this tree, seen from its root'
                continue
            target = resolve(sources, name, quoted)
            other = layer_of(target) if target else None
            if own is None or other is None or own == other or sees(own, other):
                continue
            yield source.path, line, "layer", f"{own} must not see {other} ({name})"
        if source.is_cpp and own is None:
            yield source.path, 1, "layer", "this folder has no place in the table of layers"


def check_libraries(sources):
    for source in sources.values():
        for line, name, quoted in source.includes:
            if quoted or name in STANDARD or resolve(sources, name, quoted):
                continue
            known = [entry for entry in LIBRARIES if re.fullmatch(entry[1], name)]
            if known:
                library, _, allowed = known[0]
                if not source.one_of(allowed):
                    yield source.path, line, "library", f"<{name}>: {library} is confined to {', '.join(allowed)}"
            elif not SYSTEM.fullmatch(name):
                yield source.path, line, "library", f"<{name}> is of no library in the table"


def check_public_headers(sources):
    for source in sources.values():
        if any(source.path.startswith(folder + "/") for folder in PUBLIC):
            for line, name, quoted in source.includes:
                own = not quoted and resolve(sources, name, quoted)
                if name not in STANDARD and not own:
                    yield source.path, line, "public header", f"{name}: public headers include the standard library only"


def check_cores(sources):
    for source in sources.values():
        if source.one_of(CORES) and not source.one_of(NOT_CORES):
            for line, name, _ in source.includes:
                if re.fullmatch(CORE_HEADERS_BANNED, name) or re.fullmatch(r"common/(base/(clock|mailbox)|wire/(zmq_call|zmq_transport|watched_socket))\.h", name):
                    yield source.path, line, "core", f"{name}: a core has no thread, clock, disk or socket"


def is_trainer(path):
    return (any(fnmatch.fnmatchcase(path, pattern) for pattern in TRAINER)
            and not any(fnmatch.fnmatchcase(path, pattern) for pattern in NOT_TRAINER))


def check_trainer(sources):
    for source in sources.values():
        if source.one_of(PRODUCT) and not is_trainer(source.path):
            for line, name, quoted in source.includes:
                target = resolve(sources, name, quoted)
                if target and is_trainer(target):
                    yield (source.path, line, "trainer",
                           f"{name}: a build without the trainer has this file (CAPSTAN_TRAINER=OFF), and not that one")


def check_cycles(sources):
    graph = {path: sorted({target for _, name, quoted in source.includes
                           if (target := resolve(sources, name, quoted)) and target != path})
             for path, source in sources.items() if source.is_cpp}
    for path, source in sources.items():
        for line, name, quoted in source.includes:
            if resolve(sources, name, quoted) == path:
                yield path, line, "cycle", "includes itself"
    done, on_way, way = set(), set(), []

    def visit(path):
        on_way.add(path)
        way.append(path)
        for target in graph[path]:
            if target in on_way:
                yield path, 1, "cycle", " -> ".join(way[way.index(target):] + [target])
            elif target not in done and target in graph:
                yield from visit(target)
        way.pop()
        on_way.discard(path)
        done.add(path)

    for path in graph:
        if path not in done:
            yield from visit(path)


def check_folders(sources):
    """Finds product folders that include each other; yields one violation for each pair."""
    pairs = {}
    for path, source in sources.items():
        if source.is_cpp and source.one_of(PRODUCT):
            for line, name, quoted in source.includes:
                target = resolve(sources, name, quoted)
                folders = os.path.dirname(path), os.path.dirname(target or path)
                if folders[0] != folders[1]:
                    pairs.setdefault(folders, (path, line))
    for (own, other), (path, line) in pairs.items():
        if (other, own) in pairs and own < other:
            yield path, line, "folder", f"{own} and {other} include each other; {pairs[other, own][0]} includes the other way"


CLASS = re.compile(r"\b(?:class|struct)\b(?:\s*\[\[[^\]]*\]\])*\s+([\w:]+)(?:\s+final)?\s*(?::(?!:)[^;{]*)?\{")
NO_MEMBER = re.compile(r"(?:using|typedef|friend|static_assert|enum|class|struct|union|public|private|protected|namespace)\b")


def members(code, start):
    """Yields the statements of a class body that begins at `start`, without what is inside of braces."""
    depth, statement, end = 0, "", start
    for end in range(start, len(code)):
        character = code[end]
        if character == "}":
            depth -= 1
            if depth < 0:
                return
            if depth == 0 and re.search(r"\)[\w\s&]*(?:->.*)?(?::[^:].*)?$", statement, re.S):  # the body of a method
                yield statement
                statement = ""
        elif character == "{":
            depth += 1
        elif depth == 0 and character == ";":
            yield statement
            statement = ""
        elif depth == 0:
            statement += character


def class_size(code, start):
    fields = methods = 0
    for statement in members(code, start):
        text = re.sub(r"\b(?:public|private|protected)\s*:(?!:)|\[\[[^\]]*\]\]|\btemplate\s*<[^>]*>", " ", statement).strip()
        if not text or NO_MEMBER.match(text) or text.startswith("#"):
            continue
        while (shorter := re.sub(r"<[^<>()]*(?:\([^()]*\)[^<>()]*)*>", " ", text)) != text:  # arguments of templates
            text = shorter
        declarator = re.split(r"(?<![=!<>])=(?!=)", text)[0]
        if "(" in declarator or "operator" in text:
            methods += 1
        elif not re.match(r"(?:inline\s+)?(?:static|constexpr)\b", text):
            fields += 1 + declarator.count(",")
    return fields, methods


def check_classes(sources):
    left = dict(LARGE_CLASSES)
    for source in sources.values():
        if source.is_cpp and source.one_of(PRODUCT):
            for match in CLASS.finditer(source.code):
                name = match.group(1)
                fields, methods = class_size(source.code, match.end())
                most = left.pop((source.path, name), (FIELDS_MAX, METHODS_MAX))
                if LARGE_CLASSES.get((source.path, name), (fields, methods))[:2] > (fields, methods):
                    yield (source.path, source.line(match.start()), "class size",
                           f"{name} has {fields} fields and {methods} methods: its line in LARGE_CLASSES can say so, or go")
                if fields > most[0] or methods > most[1]:
                    yield (source.path, source.line(match.start()), "class size",
                           f"{name} has {fields} fields and {methods} methods; at most {most[0]} and {most[1]}: "
                           "a part of it can be a class of its own")
    for path, name in left:
        if path in sources:
            yield path, 1, "class size", f"{name} is not here: its line in LARGE_CLASSES can go"
    for (path, name), entry in LARGE_CLASSES.items():
        if path in sources and not "".join(entry[2:]).strip():
            yield path, 1, "class size", f"{name} is in LARGE_CLASSES without a reason"


def check_words(sources):
    for source in sources.values():
        if source.is_cpp:
            for rule, pattern, banned, allowed, why in WORDS:
                if source.one_of(banned) and not source.one_of(allowed):
                    for match in re.finditer(pattern, source.code):
                        yield source.path, source.line(match.start()), rule, f"{match.group(0).strip()}: {why}"
            if not source.one_of(CONDITIONALS):
                for match in CONDITIONAL.finditer(source.code):
                    yield (source.path, source.line(match.start()), "conditional",
                           f"{match.group(0).strip()}: select a file in CMake instead")


def check_files(sources):
    for source in sources.values():
        if source.is_header and not re.search(r"^#pragma once$", source.text, re.M):
            yield source.path, 1, "pragma once", "every header says #pragma once"
        lines = source.text.count("\n")
        if source.path.endswith(CPP + (".py", ".txt", ".cmake", ".sh")) and lines > LINES_MAX:
            yield source.path, lines, "length", f"{lines} lines; over {LINES_MAX} a file holds more than one idea"
        for number, line in enumerate(source.text.splitlines(), 1) if source.is_cpp else ():
            if len(line) > COLUMNS_MAX and line.lstrip().startswith("//"):
                yield source.path, number, "columns", f"a comment of {len(line)} columns; at most {COLUMNS_MAX}"
        if source.text and not source.text.endswith("\n"):
            yield source.path, lines + 1, "text", "the last line does not end"
        if source.is_cpp and "\t" in source.text:
            yield source.path, source.line(source.text.index("\t")), "text", "a tab"
        if match := re.search(r"[ \t]+$", source.text, re.M):
            if not source.path.endswith(".md"):
                yield source.path, source.line(match.start()), "text", "blanks at the end of a line"
        if source.path.startswith("tests/tidy/"):
            continue
        for match in WORK_LEFT.finditer(source.text):
            yield source.path, source.line(match.start()), "work left", f"{match.group(0)}: do it, or write an issue"
        for match in MACHINE_PATH.finditer(source.text):
            yield source.path, source.line(match.start()), "machine path", "a path that exists on one machine only"


def check_documents(sources):
    """Finds names of documents that do not exist: neither a path from the root or from the file's folder, nor a file name."""
    names = {os.path.basename(path) for path in sources}
    for source in sources.values():
        if source.one_of(DOCUMENTS_FREE):
            continue
        for match in DOCUMENT.finditer(source.text):
            path = match.group(1)
            beside = os.path.normpath(os.path.join(os.path.dirname(source.path), path))
            if path not in sources and beside not in sources and path not in names:
                yield source.path, source.line(match.start()), "document", f"{path} is no document of this tree"


def check_cmake(sources):
    lists = {path: source for path, source in sources.items() if path.endswith(("CMakeLists.txt", ".cmake", "Presets.json"))}
    for path, source in lists.items():
        for match in re.finditer(FLAGS_BANNED, source.text):
            yield path, source.line(match.start()), "flag", f"{match.group(0)}: the bits of a weight are ours to choose"
    for path, source in sources.items():
        if not path.endswith((".cc", ".cu", ".c")):
            continue
        folder, listed = os.path.dirname(path), False
        while not listed:
            text = lists.get(os.path.join(folder, "CMakeLists.txt"))
            relative = os.path.relpath(path, folder or ".")
            listed = text is not None and re.search(rf"(?<![\w/]){re.escape(relative)}(?!\w)", text.text) is not None
            if not folder:
                break
            folder = os.path.dirname(folder)
        if not listed:
            yield path, 1, "unlisted", "no CMakeLists.txt names this source"


CHECKS = [check_layers, check_libraries, check_public_headers, check_cores, check_trainer, check_cycles, check_folders, check_classes, check_words, check_files,
          check_documents, check_cmake]


def violations(root):
    sources = read_tree(root)
    return sorted(found for check in CHECKS for found in check(sources))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    root = os.path.abspath(parser.parse_args().root)
    found = violations(root)
    for path, line, rule, message in found:
        print(f"{path}:{line}: [{rule}] {message}")
    sources = len(read_tree(root))
    print(f"tidy: {sources} files, {len(found)} violations")
    return 1 if found or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
