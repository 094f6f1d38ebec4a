// MappedFile: a file mapped into memory, which the system reads on access.
//
// Kind:   immutable; shared by threads.
// Limits: one open descriptor each, until it is destroyed.
// Fails:  kInvalid: missing, unreadable, no descriptor left. kCorrupt: modified since it was opened.
// Why:    data may be larger than memory, and workers on one machine share one copy.
//
// If a mapped file is truncated, a read behind its new end kills the process (SIGBUS). So whoever reads the bytes calls
// CheckUnchanged before and after. A truncation between the check and the read still kills the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <utility>

#include "common/base/status.h"

struct stat;

namespace capstan::train {

class MappedFile {
 public:
  static Result<MappedFile> Open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : path_(std::move(other.path_)),
        file_(std::exchange(other.file_, -1)),
        bytes_(std::exchange(other.bytes_, {})),
        state_(other.state_) {}
  MappedFile& operator=(MappedFile&&) = delete;

  // Returns the file's bytes, which begin at a page.
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

  // Checks with one system call that the opened file still has the size and modification time that it had when it was
  // opened. If another file takes its name, that does not matter.
  Status CheckUnchanged() const;

 private:
  struct State {
    std::uint64_t size = 0;
    std::int64_t changed_seconds = 0, changed_nanoseconds = 0;
  };
  static State StateOf(const struct stat& status);

  MappedFile(std::filesystem::path path, int file) : path_(std::move(path)), file_(file) {}

  std::filesystem::path path_;
  int file_;  // -1: moved away
  std::span<const std::byte> bytes_;
  State state_;
};

}  // namespace capstan::train
