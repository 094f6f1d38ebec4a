// InputFile: a file in memory that has given bytes and a path, for parsers that open files.
//
// Kind:   owned by one run of a target; it leaves nothing behind, even if the process is killed.
// Fails:  CHECKs that there is memory, because without a file there is nothing to test.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "common/base/status.h"

namespace capstan::fuzz {

class InputFile {
 public:
  explicit InputFile(std::string_view bytes) : file_(memfd_create("input", MFD_CLOEXEC)) {
    CAPSTAN_CHECK(file_ >= 0);
    CAPSTAN_CHECK(write(file_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  ~InputFile() { close(file_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  const int file_;
};

}  // namespace capstan::fuzz
