#include "worker/train/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

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
  return MappedFile({static_cast<const std::byte*>(memory), size});
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace capstan::train
