#include "common/base/file_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace capstan {

namespace {

using Clock = std::chrono::steady_clock;

// The longest wait before the lock is tried again. The notification that a file was closed comes shortly before the
// kernel releases the lock, so a try at that moment may fail.
constexpr int kLookAgainMilliseconds = 20;

// Waits until some process closes the file, at most kLookAgainMilliseconds.
class CloseWatch {
 public:
  explicit CloseWatch(const std::string& path) : descriptor_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
    (void)inotify_add_watch(descriptor_, path.c_str(), IN_CLOSE);
  }
  CloseWatch(const CloseWatch&) = delete;
  CloseWatch& operator=(const CloseWatch&) = delete;
  ~CloseWatch() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  void Wait(std::chrono::milliseconds most) {
    pollfd watched{.fd = descriptor_, .events = POLLIN, .revents = 0};
    (void)poll(&watched, 1, static_cast<int>(std::clamp<long>(most.count(), 1, kLookAgainMilliseconds)));
    char events[4096];
    while (read(descriptor_, events, sizeof events) > 0) {
    }
  }

 private:
  int descriptor_;
};

}  // namespace

Result<FileLock> FileLock::Acquire(const std::string& path, double wait_seconds) {
  const Clock::time_point deadline =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(wait_seconds));
  while (true) {
    FileLock lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (lock.descriptor_ < 0) return Unreachable(path + ": cannot be opened: " + std::strerror(errno));
    CloseWatch watch(path);
    while (flock(lock.descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) return Unreachable(path + ": cannot be locked: " + std::strerror(errno));
      const Clock::duration left = deadline - Clock::now();
      if (left <= Clock::duration::zero()) return Status(Code::kBusy, path + ": another process has it locked");
      watch.Wait(std::chrono::duration_cast<std::chrono::milliseconds>(left));
    }
    if (lock.IsStillAt(path)) return lock;
  }
}

// Whether `path` still names the locked file. If the previous holder has replaced the file, the lock is on the old one.
bool FileLock::IsStillAt(const std::string& path) const {
  struct stat locked {};
  struct stat there {};
  return fstat(descriptor_, &locked) == 0 && stat(path.c_str(), &there) == 0 && locked.st_dev == there.st_dev &&
         locked.st_ino == there.st_ino;
}

FileLock::~FileLock() {
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace capstan
