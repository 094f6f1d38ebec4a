// FileLock: an exclusive lock on a file, held by one process at a time.
//
// Kind:   value; the lock is held until the FileLock is destroyed or the process ends.
// Fails:  kBusy: the lock was taken for the whole wait; kUnreachable: the file cannot be opened or locked.
// Why:    two processes that write to one directory would corrupt its files.
#pragma once

#include <string>
#include <utility>

#include "common/base/status.h"

namespace capstan {

class FileLock {
 public:
  // Makes the file (mode 0600) if there is none. Waits up to `wait_seconds` for another process to release the lock.
  static Result<FileLock> Acquire(const std::string& path, double wait_seconds);

  FileLock(FileLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~FileLock();

  // The descriptor of the file, which is open for reading and writing.
  int descriptor() const { return descriptor_; }

 private:
  explicit FileLock(int descriptor) : descriptor_(descriptor) {}
  bool IsStillAt(const std::string& path) const;

  int descriptor_;
};

}  // namespace capstan
