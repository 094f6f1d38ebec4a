// DataFile: a file of data that stays open, is read piece by piece, and must not change meanwhile.
//
// Kind:   immutable; shared by threads.
// Limits: one open descriptor each, until it is destroyed.
// Fails:  kInvalid: missing, unreadable, no descriptor left, an error of the disk. kCorrupt: changed since it was opened.
// Why:    data may be larger than memory, and the system keeps one copy of it for all workers of a machine. The file is
//         not mapped into memory: a read of a mapping ends the process where the file was cut or the disk fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

#include "common/base/status.h"

struct stat;

namespace capstan::train {

class DataFile {
 public:
  static Result<DataFile> Open(const std::filesystem::path& path);
  ~DataFile();
  DataFile(DataFile&& other) noexcept
      : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), state_(other.state_) {}
  DataFile& operator=(DataFile&&) = delete;

  // The file's size when it was opened, in bytes.
  std::uint64_t size() const { return state_.size; }
  const std::filesystem::path& path() const { return path_; }

  // Reads the bytes that begin at `offset`. Fails if the file has become too short for them.
  Status Read(std::uint64_t offset, std::span<std::byte> bytes) const;
  // Checks with one system call that the opened file still has the size and modification time that it had when it was
  // opened. If another file takes its name, that does not matter.
  Status CheckUnchanged() const;

 private:
  struct State {
    std::uint64_t size = 0;
    std::int64_t changed_seconds = 0, changed_nanoseconds = 0;
  };
  static State StateOf(const struct stat& status);

  DataFile(std::filesystem::path path, int file) : path_(std::move(path)), file_(file) {}
  Status HasSize(std::uint64_t now) const;

  std::filesystem::path path_;
  int file_;  // -1: moved away
  State state_;
};

}  // namespace capstan::train
