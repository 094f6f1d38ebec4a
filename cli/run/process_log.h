// Bounds the log of a process that a launcher started: a large file is rotated (rotated_file.h).
//
// Kind:   functions; only one thread of a process calls them.
// Fails:  never: a log that cannot be rotated keeps growing.
#pragma once

#include <cstdint>
#include <string>

namespace capstan::cli {

inline constexpr std::uint64_t kLogBytesMax = std::uint64_t{16} << 20;
inline constexpr std::size_t kFormerLogs = 3;

// Rotates the file at `path`, to which `descriptor` appends, once it has `bytes_max` bytes. `descriptor` then appends
// to a new file.
void RotateLogIfLarge(const std::string& path, int descriptor, std::uint64_t bytes_max = kLogBytesMax);

// Rotates the log into which a launcher has redirected stdout and stderr, once it is large. Call it from time to time.
void RotateOwnLogIfLarge();

}  // namespace capstan::cli
