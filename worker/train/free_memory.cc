#include "worker/train/free_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>

namespace capstan::train {

namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> ToNumber(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

// A file's first word; "max", as where nothing limits, is no number.
std::optional<std::uint64_t> ReadNumber(const fs::path& path) {
  std::string word;
  std::ifstream file(path);
  return file >> word ? ToNumber(word) : std::nullopt;
}

// The number behind `name` in a file of lines "name number".
std::optional<std::uint64_t> ReadNamed(const fs::path& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    if (word == name && file >> word) return ToNumber(word);
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

void Lower(MemoryLimit* limit, std::uint64_t left, const std::string& name) {
  if (left < limit->left_bytes) *limit = {left, name};
}

struct GroupFiles {
  const char *limit, *used, *file, *shared;  // the last two: names in memory.stat
};
constexpr GroupFiles kUnified{"memory.max", "memory.current", "file", "shmem"};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache", "total_shmem"};

// Of a control group and those that it lies in, up to `top`. Cached files count as used there, and go when memory is
// wanted.
void LowerByGroups(fs::path group, const fs::path& top, const GroupFiles& files, MemoryLimit* limit) {
  for (;; group = group.parent_path()) {
    const auto most = ReadNumber(group / files.limit), used = ReadNumber(group / files.used);
    if (most && used) {
      const std::uint64_t file = ReadNamed(group / "memory.stat", files.file).value_or(0);
      const std::uint64_t cached = file - std::min(file, ReadNamed(group / "memory.stat", files.shared).value_or(0));
      const std::uint64_t bound = *used - std::min(*used, cached);
      Lower(limit, *most - std::min(*most, bound), "the control group " + group.string());
    }
    if (group == top || !group.has_relative_path()) return;
  }
}

// proc/self/cgroup has lines "number:controllers:path"; number 0 is the unified hierarchy.
void LowerByControlGroups(const fs::path& root, MemoryLimit* limit) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path path = fs::path(line.substr(second + 1)).relative_path();
    const fs::path unified = root / "sys/fs/cgroup", version_1 = unified / "memory";
    if (controllers == ",,") LowerByGroups((unified / path).lexically_normal(), unified, kUnified, limit);
    if (controllers.find(",memory,") != std::string::npos) {
      LowerByGroups((version_1 / path).lexically_normal(), version_1, kVersion1, limit);
    }
  }
}

}  // namespace

FreeMemory ReadFreeMemory(const fs::path& root) {
  FreeMemory free;
  if (const auto kibibytes = ReadNamed(root / "proc/meminfo", "MemAvailable:")) {
    Lower(&free.resident, *kibibytes * 1024, "this machine");
  }
  LowerByControlGroups(root, &free.resident);
  rlimit most{};
  const auto pages = ReadNumber(root / "proc/self/statm");
  if (pages && getrlimit(RLIMIT_AS, &most) == 0 && most.rlim_cur != RLIM_INFINITY) {
    const std::uint64_t used = *pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    Lower(&free.address_space, most.rlim_cur - std::min<std::uint64_t>(most.rlim_cur, used),
          "this process's address space (ulimit -v)");
  }
  return free;
}

}  // namespace capstan::train
