// The log of a process that a launcher has started is bounded: a file that is large becomes a former one (rotated_file.h).
//
// Kind:   functions; one thread of a process calls them.
// Fails:  never: a log that cannot be put aside goes on growing.
#pragma once

#include <cstdint>
#include <string>

namespace capstan::cli {

inline constexpr std::uint64_t kLogBytesMax = std::uint64_t{16} << 20;
inline constexpr std::size_t kFormerLogs = 3;

// `descriptor` appends to the file at `path`, and to a new one there when that has `bytes_max`.
void RotateLogIfLarge(const std::string& path, int descriptor, std::uint64_t bytes_max = kLogBytesMax);

// The same for what this process writes to stdout and stderr, which a launcher has pointed at its log. Now and then.
void RotateOwnLogIfLarge();

}  // namespace capstan::cli
