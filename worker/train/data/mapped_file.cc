#include "worker/train/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "worker/train/data/file_bytes.h"

namespace capstan::train {

Result<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  CAPSTAN_RETURN_IF_ERROR(CheckRegular(path));
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Unreadable(path, errno);
  struct stat status {};
  int error = fstat(file, &status) == 0 ? 0 : errno;
  const auto size = static_cast<std::size_t>(status.st_size);
  void* memory = nullptr;
  if (error == 0 && size > 0) {  // an empty mapping there is none
    memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (memory == MAP_FAILED) error = errno;
  }
  ::close(file);
  if (error != 0) return Unreadable(path, error);
  return MappedFile(path, {static_cast<const std::byte*>(memory), size}, StateOf(status));
}

MappedFile::State MappedFile::StateOf(const struct stat& status) {
  return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size), status.st_mtim.tv_sec,
          status.st_mtim.tv_nsec};
}

Status MappedFile::CheckUnchanged() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) return {};
  const State now = StateOf(status);
  if (now.device != state_.device || now.number != state_.number) return {};
  const std::string advice =
      "; the bits of the weights follow from what it was: put that back and resume the job, and a new file in its "
      "place "
      "instead of writing over it";
  if (now.size != state_.size) {
    return Corrupt(path_.string() + ": had " + std::to_string(state_.size) +
                   " bytes when this worker opened it, and has " + std::to_string(now.size) + advice);
  }
  if (now.changed_seconds != state_.changed_seconds || now.changed_nanoseconds != state_.changed_nanoseconds) {
    return Corrupt(path_.string() + ": was written to since this worker opened it" + advice);
  }
  return {};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace capstan::train
