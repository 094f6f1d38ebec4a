// Functions that find data files and read them into memory.
//
// Kind:   pure functions over the file system.
// Limits: kFileBytesMax bytes in memory for one file.
// Fails:  kInvalid: missing, unreadable or outside the data folder; kCorrupt: a damaged or truncated gzip file.
// Why:    zlib is used in one file only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/base/status.h"

namespace capstan::train {

inline constexpr std::uint64_t kFileBytesMax = std::uint64_t{1} << 34;

// Returns `path` below `root`. Names that lead out of it, by ".." or as an absolute path, are refused; links inside are
// followed.
Result<std::filesystem::path> ResolveDataPath(const std::filesystem::path& root, const std::string& path);

// Returns OK for files and links to files. Others are refused, since opening a pipe would wait forever.
Status CheckRegular(const std::filesystem::path& path);
// Returns the error for data that the system refuses with `error` (errno).
Status Unreadable(const std::filesystem::path& path, int error);

// Appends the first `bytes_max` bytes of a file as they are.
Status AppendFile(const std::filesystem::path& path, std::uint64_t bytes_max, std::string* bytes);

// Reads a whole file, and unpacks it if it is in gzip format.
Result<std::string> ReadUnpacked(const std::filesystem::path& path);

}  // namespace capstan::train
