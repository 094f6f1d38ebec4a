#include "server/coordinator/event_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <map>
#include <utility>

#include "common/base/durable_file.h"

namespace capstan::server {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "events.out.tfevents.", kSuffix = ".capstan";

// Lists this coordinator's files by the number in their names. Other files are left alone.
std::map<std::uint64_t, fs::path> FilesIn(const std::string& folder) {
  std::map<std::uint64_t, fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    std::uint64_t number = 0;
    const auto read = std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), number);
    if (read.ec == std::errc()) files[number] = entry->path();
  }
  return files;
}

std::string NameOf(std::uint64_t number) {
  std::string digits = std::to_string(number);
  digits.insert(0, 10 - std::min<std::size_t>(digits.size(), 10), '0');  // names are sorted as text
  return std::string(kPrefix) + digits + std::string(kSuffix);
}

}  // namespace

Result<EventFile> EventFile::Create(const std::string& folder, std::uint64_t seconds) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return DiskFailure("make", folder, errno);
  std::error_code error;
  std::map<std::uint64_t, fs::path> files = FilesIn(folder);
  if (!files.empty()) seconds = std::max(seconds, files.rbegin()->first + 1);  // the clock may have been set back
  for (; files.size() >= kEventFilesMax; files.erase(files.begin())) fs::remove(files.begin()->second, error);
  std::string path = folder + "/" + NameOf(seconds);
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return DiskFailure("write", path, errno);
  return EventFile(std::move(path), fd);
}

EventFile::EventFile(EventFile&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

EventFile::~EventFile() {
  if (fd_ < 0) return;
  close(fd_);
  if (is_empty()) unlink(path_.c_str());
}

Status EventFile::Append(std::string_view records) {
  for (std::size_t done = 0; done < records.size();) {
    const ssize_t written = write(fd_, records.data() + done, records.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written > 0) {
      done += static_cast<std::size_t>(written);
      continue;
    }
    Status failure = DiskFailure("write", path_, errno);
    if (done > 0 && ftruncate(fd_, static_cast<off_t>(size_)) != 0) failure = DiskFailure("cut", path_, errno);
    return failure;
  }
  size_ += records.size();
  return {};
}

}  // namespace capstan::server
