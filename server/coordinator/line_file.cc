#include "server/coordinator/line_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "common/base/durable_file.h"
#include "common/base/rotated_file.h"

namespace capstan::server {
namespace {

Result<int> OpenFile(const std::string& path, mode_t mode) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, mode);
  if (fd < 0) return DiskFailure("write", path, errno);
  struct stat info {};
  const bool is_file = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);  // a link of the user's may lead to a device
  if (is_file && (info.st_mode & ACCESSPERMS & ~mode) != 0) (void)fchmod(fd, info.st_mode & mode);
  return fd;
}

}  // namespace

Result<LineFile> LineFile::Open(std::string path, mode_t mode, LineFileLimits limits) {
  CAPSTAN_ASSIGN_OR_RETURN(const int fd, OpenFile(path, mode));
  LineFile file(std::move(path), mode, limits, fd);
  CAPSTAN_RETURN_IF_ERROR(file.CutTornLine());
  return file;
}

LineFile::LineFile(LineFile&& other) noexcept
    : path_(std::move(other.path_)),
      mode_(other.mode_),
      limits_(other.limits_),
      fd_(std::exchange(other.fd_, -1)),
      unwritten_(std::move(other.unwritten_)) {}

LineFile::~LineFile() {
  if (fd_ >= 0) close(fd_);
}

Status LineFile::CutTornLine() {
  off_t end = lseek(fd_, 0, SEEK_END);
  const off_t size = end;
  std::array<char, 4096> bytes{};
  while (end > 0) {
    const off_t begin = std::max<off_t>(0, end - static_cast<off_t>(bytes.size()));
    const ssize_t got = pread(fd_, bytes.data(), static_cast<std::size_t>(end - begin), begin);
    if (got != end - begin) return Unreachable("cannot read " + path_ + ": " + std::strerror(errno));
    const std::size_t newline = std::string_view(bytes.data(), static_cast<std::size_t>(got)).rfind('\n');
    end = newline == std::string_view::npos ? begin : begin + static_cast<off_t>(newline) + 1;
    if (newline != std::string_view::npos) break;
  }
  if (end == size || ftruncate(fd_, end) == 0) return {};
  return Unreachable("cannot cut half a line off " + path_ + ": " + std::strerror(errno));
}

Status LineFile::Append(std::string_view lines) {
  unwritten_ += lines;
  return Flush();
}

Status LineFile::Flush() {
  std::size_t done = 0;
  Status failure;
  while (done < unwritten_.size() && failure.ok()) {
    const ssize_t written = write(fd_, unwritten_.data() + done, unwritten_.size() - done);
    if (written > 0) done += static_cast<std::size_t>(written);
    if (written == 0 || (written < 0 && errno != EINTR)) failure = DiskFailure("write", path_, errno);
  }
  if (failure.ok()) {
    unwritten_.clear();
    RotateIfLarge();
    return {};
  }
  unwritten_.erase(0, unwritten_.rfind('\n', done == 0 ? 0 : done - 1) + 1);
  const Status cut = CutTornLine();  // if the cut fails too, the next Open cuts the line
  if (cut.ok() && failure.code() == Code::kBusy) return failure;
  unwritten_.clear();
  return Unreachable(failure.message());
}

// Rotates a file that has reached its size. If that fails, the file goes on growing.
void LineFile::RotateIfLarge() {
  struct stat info {};
  if (fstat(fd_, &info) != 0 || static_cast<std::uint64_t>(info.st_size) < limits_.file_bytes) return;
  const bool is_aside = access(path_.c_str(), F_OK) != 0;
  if (!is_aside && (fsync(fd_) != 0 || !RotateFile(path_, limits_.former_files).ok())) return;
  const Result<int> next = OpenFile(path_, mode_);
  if (!next.ok()) return;  // lines go into the old file until there is a new one
  close(std::exchange(fd_, *next));
}

}  // namespace capstan::server
