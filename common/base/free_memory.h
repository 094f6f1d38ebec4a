// ReadFreeMemory: returns how much memory this process may still take, and what sets the limit. MemoryText: a number of
// bytes for people.
//
// Kind:   reads the system; nothing is kept.
// Fails:  never: a limit that cannot be read counts as none.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <string>

namespace capstan {

struct MemoryLimit {
  std::uint64_t left_bytes = std::numeric_limits<std::uint64_t>::max();
  std::string name;  // what sets the limit, for messages
};

// The system compares RLIMIT_AS with reserved memory. Much of that may be malloc arenas that no thread ever fills, so
// resident memory predicts better whether a model fits.
struct AddressSpace {
  std::uint64_t limit_bytes = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t reserved_bytes = 0, resident_bytes = 0;

  std::uint64_t LeftBytes() const { return limit_bytes - std::min(limit_bytes, resident_bytes); }
};

struct FreeMemory {
  MemoryLimit resident;        // free memory and swap: the machine's, or less if a control group allows less
  AddressSpace address_space;  // RLIMIT_AS, where memory that is never written counts too
};

// `root`: the folder that contains proc/ and sys/.
FreeMemory ReadFreeMemory(const std::filesystem::path& root = "/");

// Returns a text such as "1.5 GiB" or "640 MiB".
std::string MemoryText(std::uint64_t bytes);

}  // namespace capstan
