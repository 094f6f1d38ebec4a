#include "cli/run/process_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/rotated_file.h"

namespace capstan::cli {
namespace {

bool IsLarge(int descriptor, std::uint64_t bytes_max) {
  struct stat info {};
  return fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode) &&
         static_cast<std::uint64_t>(info.st_size) >= bytes_max;
}

}  // namespace

void RotateLogIfLarge(const std::string& path, int descriptor, std::uint64_t bytes_max) {
  if (!IsLarge(descriptor, bytes_max) || !RotateFile(path, kFormerLogs).ok()) return;
  const int next = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (next < 0) return;
  const int flags = fcntl(descriptor, F_GETFD);
  (void)dup3(next, descriptor, (flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
  close(next);
}

void RotateOwnLogIfLarge() {
  if (!IsLarge(STDERR_FILENO, kLogBytesMax)) return;
  std::error_code error;
  const std::string path = std::filesystem::read_symlink("/proc/self/fd/2", error);
  if (error) return;
  RotateLogIfLarge(path, STDERR_FILENO);
  (void)dup2(STDERR_FILENO, STDOUT_FILENO);
}

}  // namespace capstan::cli
