#include "worker/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "worker/data/file_bytes.h"

namespace capstan::train {

Result<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  CAPSTAN_RETURN_IF_ERROR(CheckRegular(path));
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Unreadable(path, errno);
  MappedFile mapped(path, file);
  struct stat status {};
  if (fstat(file, &status) != 0) return Unreadable(path, errno);
  mapped.state_ = StateOf(status);
  if (mapped.state_.size == 0) return mapped;  // mmap refuses empty mappings
  void* memory = mmap(nullptr, mapped.state_.size, PROT_READ, MAP_PRIVATE, file, 0);
  if (memory == MAP_FAILED) return Unreadable(path, errno);
  mapped.bytes_ = {static_cast<const std::byte*>(memory), mapped.state_.size};
  return mapped;
}

MappedFile::State MappedFile::StateOf(const struct stat& status) {
  return {static_cast<std::uint64_t>(status.st_size), status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

Status MappedFile::CheckUnchanged() const {
  struct stat status {};
  if (fstat(file_, &status) != 0) return Unreadable(path_, errno);
  const State now = StateOf(status);
  const std::string advice =
      "; the bits of the weights follow from what it was: put that back and resume the job. Other tokens belong under "
      "another path, because a worker that starts again under this one is refused with them";
  if (now.size != state_.size) {
    return Corrupt(path_.string() + ": had " + std::to_string(state_.size) +
                   " bytes when this worker opened it, and has " + std::to_string(now.size) + advice);
  }
  if (now.changed_seconds != state_.changed_seconds || now.changed_nanoseconds != state_.changed_nanoseconds) {
    return Corrupt(path_.string() + ": its time changed since this worker opened it, as when it is written to" +
                   advice);
  }
  return {};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (file_ >= 0) ::close(file_);
}

}  // namespace capstan::train
