#include "common/base/free_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string_view>

namespace capstan {

namespace {

namespace fs = std::filesystem;

constexpr double kMiB = 1 << 20, kGiB = 1 << 30;

std::optional<std::uint64_t> ToNumber(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

// Returns the number that a file begins with. nullopt: there is no such file, or no number, such as "max" (no limit).
std::optional<std::uint64_t> ReadNumber(const fs::path& path) {
  std::string word;
  std::ifstream file(path);
  return file >> word ? ToNumber(word) : std::nullopt;
}

// Returns the number behind `name` in a file of lines "name number".
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
  const char *limit, *used, *file, *shared, *slab;  // the last three: names in memory.stat
};
constexpr GroupFiles kUnified{"memory.max", "memory.current", "file", "shmem", "slab_reclaimable"};
constexpr GroupFiles kVersion1{"memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache", "total_shmem", ""};

// Returns the memory that a control group may use before it is killed or throttled; nullopt: no limit. Version 1 has no
// memory.high.
std::optional<std::uint64_t> MostOf(const fs::path& group, const GroupFiles& files) {
  const auto most = ReadNumber(group / files.limit), high = ReadNumber(group / "memory.high");
  return most && high ? std::min(*most, *high) : most ? most : high;
}

// Returns how much swap space a control group may still use, at most the machine's free swap. 0 for version 1, which
// does not report swap separately.
std::uint64_t SwapOf(const fs::path& group, std::uint64_t machine_swap) {
  const auto used = ReadNumber(group / "memory.swap.current");
  if (!used) return 0;
  const std::uint64_t most = ReadNumber(group / "memory.swap.max").value_or(std::numeric_limits<std::uint64_t>::max());
  return std::min(most - std::min(most, *used), machine_swap);
}

// Lowers the limit to what a control group and its parents up to `top` allow. A group's count of used memory includes
// file and kernel caches. They are subtracted, because the kernel drops them when memory is needed.
void LowerByGroups(fs::path group, const fs::path& top, const GroupFiles& files, std::uint64_t machine_swap,
                   MemoryLimit* limit) {
  for (;; group = group.parent_path()) {
    const auto most = MostOf(group, files), used = ReadNumber(group / files.used);
    if (most && used) {
      const auto part = [&](const char* name) { return ReadNamed(group / "memory.stat", name).value_or(0); };
      const std::uint64_t file = part(files.file);
      const std::uint64_t cached = file - std::min(file, part(files.shared)) + part(files.slab);
      const std::uint64_t bound = *used - std::min(*used, cached);
      Lower(limit, *most - std::min(*most, bound) + SwapOf(group, machine_swap), "the control group " + group.string());
    }
    if (group == top || !group.has_relative_path()) return;
  }
}

// Lowers the limit to what this process's control groups allow. Lines of proc/self/cgroup are
// "number:controllers:path"; number 0 is the unified hierarchy.
void LowerByControlGroups(const fs::path& root, std::uint64_t machine_swap, MemoryLimit* limit) {
  std::ifstream file(root / "proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const fs::path path = fs::path(line.substr(second + 1)).relative_path();
    const fs::path unified = root / "sys/fs/cgroup", version_1 = unified / "memory";
    if (controllers == ",,") LowerByGroups((unified / path).lexically_normal(), unified, kUnified, machine_swap, limit);
    if (controllers.find(",memory,") != std::string::npos) {
      LowerByGroups((version_1 / path).lexically_normal(), version_1, kVersion1, machine_swap, limit);
    }
  }
}

}  // namespace

FreeMemory ReadFreeMemory(const fs::path& root) {
  FreeMemory free;
  const std::uint64_t swap = ReadNamed(root / "proc/meminfo", "SwapFree:").value_or(0) * 1024;
  if (const auto kibibytes = ReadNamed(root / "proc/meminfo", "MemAvailable:")) {
    Lower(&free.resident, *kibibytes * 1024 + swap, swap > 0 ? "this machine with its swap" : "this machine");
  }
  LowerByControlGroups(root, swap, &free.resident);
  rlimit most{};
  std::uint64_t reserved_pages = 0, resident_pages = 0;
  std::ifstream pages(root / "proc/self/statm");
  if (pages >> reserved_pages >> resident_pages && getrlimit(RLIMIT_AS, &most) == 0 && most.rlim_cur != RLIM_INFINITY) {
    const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    free.address_space = {most.rlim_cur, reserved_pages * page_bytes, resident_pages * page_bytes};
  }
  return free;
}

std::string MemoryText(std::uint64_t bytes) {
  std::array<char, 32> text{};
  const auto count = static_cast<double>(bytes);
  if (count >= kGiB) {
    std::snprintf(text.data(), text.size(), "%.1f GiB", count / kGiB);
  } else {
    std::snprintf(text.data(), text.size(), count < 10 * kMiB ? "%.1f MiB" : "%.0f MiB", count / kMiB);
  }
  return text.data();
}

}  // namespace capstan
