// FileLock: a file that one process at a time has open for itself.
//
// Kind:   value; the lock is held until it is destroyed, or until the process ends in whatever way.
// Fails:  kBusy: somebody else has held it for the whole time; kUnreachable: the file cannot be opened.
// Why:    two processes that write to one directory destroy it.
#pragma once

#include <string>
#include <utility>

#include "common/base/status.h"

namespace capstan {

class FileLock {
 public:
  // Makes the file (mode 0600) when there is none. Waits at most `wait_seconds` for whoever has it.
  static Result<FileLock> Acquire(const std::string& path, double wait_seconds);

  FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FileLock();

  // Open for reading and writing.
  int descriptor() const { return descriptor_; }

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  bool IsStillAt(const std::string& path) const;

  int descriptor_;
};

}  // namespace capstan
