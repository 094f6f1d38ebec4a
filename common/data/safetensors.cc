#include "common/data/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <numeric>

#include "common/base/durable_file.h"
#include "common/base/write_at.h"

namespace capstan {

Result<SafetensorsFile> ReadSafetensors(const std::string& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) return Invalid("cannot read " + path + ": " + std::strerror(errno));
  const auto size = static_cast<std::uint64_t>(in.tellg());
  in.seekg(0);
  std::array<unsigned char, 8> length{};
  if (size < length.size() || !in.read(reinterpret_cast<char*>(length.data()), length.size())) {
    return Corrupt(path + " is not a safetensors file: it has " + std::to_string(size) +
                   " bytes, and one begins with 8");
  }
  std::uint64_t header_bytes = 0;
  for (std::size_t i = length.size(); i-- > 0;) header_bytes = header_bytes << 8 | length[i];
  if (header_bytes > kSafetensorsHeaderMax || header_bytes > size - length.size()) {
    return Corrupt(path + " is not a safetensors file, or is cut short: its first 8 bytes name a header of " +
                   std::to_string(header_bytes) + " bytes, and " + std::to_string(size - length.size()) + " follow");
  }
  if (header_bytes > 0 && in.peek() != '{') {
    return Corrupt(path + " is not a safetensors file: its header does not begin with {");
  }
  std::string header(header_bytes, '\0');
  const std::uint64_t data_bytes = size - length.size() - header_bytes;
  if (!in.read(header.data(), static_cast<std::streamsize>(header_bytes)))
    return Corrupt(path + " cannot be read whole");
  Result<SafetensorsFile> file = ParseSafetensorsHeader(header, data_bytes);
  if (!file.ok()) return Corrupt(path + ": " + file.status().message());
  file->data.resize(data_bytes);
  if (!in.read(reinterpret_cast<char*>(file->data.data()), static_cast<std::streamsize>(data_bytes))) {
    return Corrupt(path + " cannot be read whole");
  }
  return file;
}

namespace {

std::string Partial(const std::string& path) { return path + ".partial"; }

}  // namespace

Result<SafetensorsWriter> SafetensorsWriter::Create(std::string path, const std::vector<TensorSpec>& tensors,
                                                    const SafetensorsMetadata& metadata) {
  const std::string header = SafetensorsHeader(tensors, metadata);
  struct stat there {};
  if (stat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return Unreachable("cannot write " + path + ": it is there, and no file; choose another name");
  }
  CAPSTAN_ASSIGN_OR_RETURN(const int fd, OpenNew(Partial(path), 0666));
  SafetensorsWriter writer(std::move(path), fd, header.size());
  const std::uint64_t bytes = std::accumulate(
      tensors.begin(), tensors.end(), std::uint64_t{header.size()},
      [](std::uint64_t sum, const TensorSpec& tensor) { return sum + tensor.ElementCount() * sizeof(float); });
  if (const int error = posix_fallocate(fd, 0, static_cast<off_t>(bytes)); error != 0) {
    return DiskFailure("write", Partial(writer.path_), error);
  }
  if (!WriteAt(fd, std::as_bytes(std::span(header)), 0)) return writer.Failure("write");
  return writer;
}

SafetensorsWriter::SafetensorsWriter(SafetensorsWriter&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), data_offset_(other.data_offset_) {}

SafetensorsWriter::~SafetensorsWriter() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(Partial(path_).c_str());
}

Status SafetensorsWriter::Failure(const char* what) const { return DiskFailure(what, Partial(path_), errno); }

Status SafetensorsWriter::Write(std::uint64_t element, std::span<const std::byte> values) {
  if (!WriteAt(fd_, values, data_offset_ + element * sizeof(float))) return Failure("write");
  return {};
}

Status SafetensorsWriter::Commit() {
  if (fsync(fd_) != 0) return Failure("fsync");
  CAPSTAN_RETURN_IF_ERROR(RenameDurably(Partial(path_), path_));
  close(std::exchange(fd_, -1));
  return {};
}

}  // namespace capstan
