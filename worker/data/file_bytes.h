// Files as bytes in memory: where they are, and what is in them.
//
// Kind:   pure functions over the file system.
// Limits: kFileBytesMax bytes in memory for one file.
// Fails:  kInvalid: not there, not readable, outside the data folder; kCorrupt: a damaged or truncated gzip file.
// Why:    the one file that knows zlib.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/base/status.h"

namespace capstan::train {

inline constexpr std::uint64_t kFileBytesMax = std::uint64_t{1} << 34;

// `path` below `root`. Names that lead out of it, by ".." or as an absolute path, are refused; links inside are
// followed.
Result<std::filesystem::path> ResolveDataPath(const std::filesystem::path& root, const std::string& path);

// Files and links to files only: opening a pipe would wait for ever.
Status CheckRegular(const std::filesystem::path& path);
// What to say of data that the system refuses with this error.
Status Unreadable(const std::filesystem::path& path, int error);

// Appends the first `bytes_max` bytes of a file as they are.
Status AppendFile(const std::filesystem::path& path, std::uint64_t bytes_max, std::string* bytes);

// A whole file, unpacked when it is in gzip format.
Result<std::string> ReadUnpacked(const std::filesystem::path& path);

}  // namespace capstan::train
