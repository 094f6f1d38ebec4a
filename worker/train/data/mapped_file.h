// MappedFile: a file as memory that the system reads when it is looked at.
//
// Kind:   immutable; shared by threads.
// Fails:  kInvalid: not there, not readable.
// Why:    data larger than memory trains, and workers on one machine share one copy.
//
// A file that is cut short while it is mapped ends the process that looks behind its end: put a new file in its place,
// do not write over it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <utility>

#include "common/status.h"

namespace capstan::train {

class MappedFile {
 public:
  static Result<MappedFile> Open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  MappedFile& operator=(MappedFile&&) = delete;

  // Begins on a page.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  explicit MappedFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::span<const std::byte> bytes_;
};

}  // namespace capstan::train
