#include "cli/terminal/bounded_output.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace capstan::cli {
namespace {

// Opens a pipe or terminal a second time, in non-blocking mode. O_NONBLOCK on `fd` itself would affect all programs
// that share the open file, such as the shell. Returns -1 for a regular file, which would be written from its
// beginning, and for a socket, which cannot be opened again.
int OpenWithoutWaiting(int fd) {
  struct stat about {};
  if (fstat(fd, &about) != 0 || (!S_ISFIFO(about.st_mode) && !S_ISCHR(about.st_mode))) return -1;
  return open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
}

bool HasRoom(int fd, int timeout_ms) {
  pollfd room{fd, POLLOUT, 0};
  return poll(&room, 1, timeout_ms) > 0;  // also true if the output is broken, which write then reports
}

}  // namespace

BoundedOutput::BoundedOutput(int fd) : fd_(fd), own_fd_(OpenWithoutWaiting(fd)) {}

BoundedOutput::~BoundedOutput() {
  if (own_fd_ >= 0) close(own_fd_);
}

bool BoundedOutput::Write(std::string_view text) {
  if (waiting() && waiting_.size() + text.size() > kWaitingBytesMax) return false;
  waiting_ += text;
  Flush();
  return true;
}

// Writes pieces of at most PIPE_BUF bytes. A pipe that poll reports as writable has room for so many bytes, so the
// write does not block even if the pipe is in blocking mode.
void BoundedOutput::Flush() {
  const int fd = own_fd_ >= 0 ? own_fd_ : fd_;
  while (waiting() && HasRoom(fd, 0)) {
    const ssize_t written = write(fd, waiting_.data(), std::min<std::size_t>(waiting_.size(), PIPE_BUF));
    if (written < 0 && (errno == EAGAIN || errno == EINTR)) return;
    waiting_.erase(0, written < 0 ? waiting_.npos : static_cast<std::size_t>(written));
  }
}

void BoundedOutput::Drain(std::chrono::milliseconds patience) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + patience;
  for (Flush(); waiting(); Flush()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0 || !HasRoom(own_fd_ >= 0 ? own_fd_ : fd_, static_cast<int>(left.count()))) return;
  }
}

}  // namespace capstan::cli
