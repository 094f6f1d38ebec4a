// ReadFreeMemory: how much memory this process may still take, and what says so.
//
// Kind:   reads the system; nothing is kept.
// Fails:  never: what cannot be read sets no limit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

namespace capstan::train {

struct MemoryLimit {
  std::uint64_t left_bytes = std::numeric_limits<std::uint64_t>::max();
  std::string name;  // what sets it, for people
};

// RLIMIT_AS is held against what is reserved. Most of that may be arenas that no thread will ever fill, so what is
// resident tells better whether a model fits.
struct AddressSpace {
  std::uint64_t limit_bytes = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t reserved_bytes = 0, resident_bytes = 0;

  std::uint64_t LeftBytes() const { return limit_bytes - std::min(limit_bytes, resident_bytes); }
};

struct FreeMemory {
  MemoryLimit resident;        // the smaller of what the machine has and what the process's control groups leave
  AddressSpace address_space;  // memory that is never written counts too
};

// `root` is where proc/ and sys/ lie.
FreeMemory ReadFreeMemory(const std::filesystem::path& root = "/");

}  // namespace capstan::train
