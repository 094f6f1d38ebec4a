#include "worker/data/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "worker/data/file_bytes.h"

namespace capstan::train {
namespace {

constexpr const char* kAdvice =
    "; the bits of the weights follow from what it was: put that back and resume the job. Other tokens belong under "
    "another path, because a worker that starts again under this one is refused with them";

}  // namespace

Result<DataFile> DataFile::Open(const std::filesystem::path& path) {
  CAPSTAN_RETURN_IF_ERROR(CheckRegular(path));
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Unreadable(path, errno);
  DataFile opened(path, file);
  struct stat status {};
  if (fstat(file, &status) != 0) return Unreadable(path, errno);
  opened.state_ = StateOf(status);
  return opened;
}

DataFile::State DataFile::StateOf(const struct stat& status) {
  return {static_cast<std::uint64_t>(status.st_size), status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

Status DataFile::Read(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t got = pread(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unreadable(path_, errno);
    if (got == 0) return HasSize(offset);
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Status DataFile::CheckUnchanged() const {
  struct stat status {};
  if (fstat(file_, &status) != 0) return Unreadable(path_, errno);
  const State now = StateOf(status);
  if (now.size != state_.size) return HasSize(now.size);
  if (now.changed_seconds != state_.changed_seconds || now.changed_nanoseconds != state_.changed_nanoseconds) {
    return Corrupt(path_.string() + ": its time changed since this worker opened it, as when it is written to" +
                   kAdvice);
  }
  return {};
}

Status DataFile::HasSize(std::uint64_t now) const {
  return Corrupt(path_.string() + ": had " + std::to_string(state_.size) + " bytes when this worker opened it, and has " +
                 std::to_string(now) + kAdvice);
}

DataFile::~DataFile() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace capstan::train
