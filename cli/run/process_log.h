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

// `descriptor` appends to the file at `path`. When the file has `bytes_max`, it is rotated and `descriptor`
// gets a new one.
void RotateLogIfLarge(const std::string& path, int descriptor, std::uint64_t bytes_max = kLogBytesMax);

// The same for stdout and stderr, which a launcher has redirected into a log. Call it from time to time.
void RotateOwnLogIfLarge();

}  // namespace capstan::cli
