// ReadFreeMemory: how much memory this process may still take, and what says so.
//
// Kind:   reads the system; nothing is kept.
// Fails:  never: what cannot be read sets no limit.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

namespace capstan::train {

struct MemoryLimit {
  std::uint64_t left_bytes = std::numeric_limits<std::uint64_t>::max();
  std::string name;  // what sets it, for people
};

struct FreeMemory {
  MemoryLimit resident;       // the smaller of what the machine has and what the process's control groups leave
  MemoryLimit address_space;  // RLIMIT_AS; memory that is never written counts too
};

// `root` is where proc/ and sys/ lie.
FreeMemory ReadFreeMemory(const std::filesystem::path& root = "/");

}  // namespace capstan::train
