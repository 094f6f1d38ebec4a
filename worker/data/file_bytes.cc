#include "worker/data/file_bytes.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace capstan::train {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

struct CloseGzip {
  void operator()(gzFile_s* file) const { gzclose_r(file); }
};

// Calls `read` and appends what it reads to `bytes`, at most `bytes_max` bytes. `read` returns the number of bytes
// read: 0 at the end, negative on failure. Returns whether no call failed.
template <class Read>
bool ReadAll(Read read, std::uint64_t bytes_max, std::string* bytes) {
  const std::size_t start = bytes->size();
  for (;;) {
    const std::size_t have = bytes->size() - start;
    if (have >= bytes_max) return true;
    const std::size_t want = static_cast<std::size_t>(std::min<std::uint64_t>(kChunkBytes, bytes_max - have));
    bytes->resize(start + have + want);
    const auto got = read(bytes->data() + start + have, want);
    bytes->resize(start + have + static_cast<std::size_t>(std::max<decltype(got)>(got, 0)));
    if (got <= 0) return got == 0;
  }
}

Status TooLarge(const fs::path& path, std::uint64_t bytes_max, const MemoryLimit& memory) {
  const std::string what = path.string() + ": more than " + std::to_string(bytes_max >> 20) +
                           " MiB of data, which is held in memory";
  if (bytes_max == kFileBytesMax) return Invalid(what + "; give a part of it");
  return Invalid(what + ", and " + memory.name + " has " + std::to_string(memory.left_bytes >> 20) +
                 " MiB left; give a part of it, or start this worker where there is more memory");
}

}  // namespace

Status Unreadable(const fs::path& path, int error) {
  if (error == EMFILE) {
    return Invalid(path.string() + ": cannot open it: this process has no descriptor left, and files of tokens stay " +
                   "open; raise the limit (ulimit -n), or join the files to fewer");
  }
  return Invalid(path.string() + ": cannot read the data: " + std::strerror(error) +
                 "; check [data] path in the job file");
}

Status CheckRegular(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) return Unreadable(path, error ? error.value() : ENOENT);
  if (fs::is_directory(status)) return Unreadable(path, EISDIR);
  if (!fs::is_regular_file(status)) return Invalid(path.string() + ": not a regular file, and data must be one");
  return {};
}

Result<fs::path> ResolveDataPath(const fs::path& root, const std::string& path) {
  std::error_code error;
  const fs::path base = (fs::absolute(root, error) / "").lexically_normal();
  const fs::path resolved = (base / path).lexically_normal();
  const auto [end, other] = std::mismatch(base.begin(), std::prev(base.end()), resolved.begin(), resolved.end());
  if (end == std::prev(base.end()) && path.find('\0') == std::string::npos) return resolved;
  return Invalid("[data] path \"" + path + "\" leads out of the data folder " + base.string() +
                 "; move the data there, or start this process with another --data-root");
}

Status AppendFile(const fs::path& path, std::uint64_t bytes_max, std::string* bytes, const MemoryLimit& memory) {
  CAPSTAN_RETURN_IF_ERROR(CheckRegular(path));
  bytes_max = std::min(bytes_max, kFileBytesMax);
  std::error_code unknown;
  const std::uint64_t size = fs::file_size(path, unknown);
  if (!unknown && std::min(size, bytes_max) > memory.left_bytes) return TooLarge(path, memory.left_bytes, memory);
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Unreadable(path, errno);
  const bool done = ReadAll(
      [file](char* to, std::size_t size) {
        ssize_t got = -1;
        do got = ::read(file, to, size);
        while (got < 0 && errno == EINTR);
        return got;
      },
      bytes_max, bytes);
  const int error = errno;
  ::close(file);
  return done ? Status() : Unreadable(path, error);
}

Result<std::string> ReadUnpacked(const fs::path& path, const MemoryLimit& memory) {
  CAPSTAN_RETURN_IF_ERROR(CheckRegular(path));
  errno = 0;
  std::unique_ptr<gzFile_s, CloseGzip> file(gzopen(path.c_str(), "rbe"));  // e: not for programs that are started
  if (file == nullptr) return Unreadable(path, errno != 0 ? errno : ENOMEM);
  gzbuffer(file.get(), 1 << 17);
  std::error_code unknown;
  const std::uint64_t size = fs::file_size(path, unknown);
  const std::uint64_t room = gzdirect(file.get()) == 1 ? memory.left_bytes : memory.left_bytes / 2;
  const std::uint64_t bytes_max = std::min(kFileBytesMax, room);
  if (unknown || size > bytes_max) return unknown ? Unreadable(path, unknown.value()) : TooLarge(path, bytes_max, memory);
  std::string bytes;
  bytes.reserve(size + kChunkBytes);  // ReadAll asks for as much behind the end
  const bool done =
      ReadAll([&file](char* to, std::size_t size) { return gzread(file.get(), to, static_cast<unsigned>(size)); },
              bytes_max + 1, &bytes);
  int error = Z_OK;
  const char* text = gzerror(file.get(), &error);
  if (error == Z_ERRNO) return Unreadable(path, errno);
  // zlib's Z_BUF_ERROR means here that the file ends in the middle of its compressed stream.
  if (!done || error != Z_OK) {
    const std::string what =
        error == Z_BUF_ERROR ? "the gzip file is truncated" : "damaged gzip file: " + std::string(text);
    return Corrupt(path.string() + ": " + what + " after " + std::to_string(bytes.size()) +
                   " unpacked bytes; copy or download it again");
  }
  if (bytes.size() > bytes_max) return TooLarge(path, bytes_max, memory);
  if (path.extension() == ".gz" && !bytes.empty() && gzdirect(file.get()) == 1) {
    return Corrupt(path.string() + ": named .gz but not in gzip format; rename it or copy it again");
  }
  return bytes;
}

}  // namespace capstan::train
