// MappedFile: a file as memory that the system reads when it is looked at.
//
// Kind:   immutable; shared by threads.
// Limits: one open descriptor each, until it goes.
// Fails:  kInvalid: not there, not readable, no descriptor left. kCorrupt: written to since it was opened.
// Why:    data larger than memory trains, and workers on one machine share one copy.
//
// A file that is cut short while it is mapped ends the process that looks behind its end. So whoever reads asks first
// (CheckUnchanged), and again when it has read; what is cut in the moment between still ends it.
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

  // Begins on a page.
  std::span<const std::byte> bytes() const { return bytes_; }
  const std::filesystem::path& path() const { return path_; }

  // Whether the file that was opened is what it was then: its size and the time of its last change, one look at the
  // system. What its name leads to by now is no matter.
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
