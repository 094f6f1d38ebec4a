// ResolveDataPath, CheckRegular, AppendFile, ReadUnpacked: find data files and read them into memory.
//
// Kind:   pure functions over the file system.
// Limits: kFileBytesMax bytes in memory for one file, and what the process may still take.
// Fails:  kInvalid: missing, unreadable, too large or outside the data folder; kCorrupt: a damaged or truncated gzip file.
// Why:    zlib is used in one file only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/base/free_memory.h"
#include "common/base/status.h"

namespace capstan::train {

inline constexpr std::uint64_t kFileBytesMax = std::uint64_t{1} << 34;

// Returns `path` as a path below `root`. A path that leads out of `root`, by ".." or as an absolute path, is refused.
// Symbolic links are not resolved, so a link below `root` may lead anywhere.
Result<std::filesystem::path> ResolveDataPath(const std::filesystem::path& root, const std::string& path);

// Returns OK for regular files and links to them. Everything else is refused; opening a pipe, for example, would wait
// forever.
Status CheckRegular(const std::filesystem::path& path);
// Returns the error for data that cannot be opened or read. `error` is the errno of the system call.
Status Unreadable(const std::filesystem::path& path, int error);

// Appends a file's first bytes to `bytes`: at most `bytes_max` and at most kFileBytesMax. Does not unpack them.
// `memory`: what the process may still take; more bytes than that are refused.
Status AppendFile(const std::filesystem::path& path, std::uint64_t bytes_max, std::string* bytes,
                  const MemoryLimit& memory = ReadFreeMemory().resident);

// Reads a whole file, and unpacks it if it is in gzip format. `memory`: as for AppendFile, but unpacked bytes may take
// only half of it, because they are copied when their number has grown.
Result<std::string> ReadUnpacked(const std::filesystem::path& path,
                                 const MemoryLimit& memory = ReadFreeMemory().resident);

}  // namespace capstan::train
