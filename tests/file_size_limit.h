// FileSizeLimit: limits the size of this process's files, so that a write beyond it is cut short, and the next one
// fails with EFBIG.
//
// Kind:   owned by its maker; the limit ends with it.
#pragma once

#include <signal.h>
#include <sys/resource.h>

#include <cstddef>

namespace capstan::testing {

class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::size_t bytes_max) : handler_(signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes_max;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  sighandler_t handler_;
  rlimit before_{};
};

}  // namespace capstan::testing
