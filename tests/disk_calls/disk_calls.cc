// With _FORTIFY_SOURCE, glibc's checked inline versions would take the place of the functions below.
#undef _FORTIFY_SOURCE

#include "tests/disk_calls/disk_calls.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

namespace capstan::testing {
namespace {

std::atomic<DiskCalls*> watching = nullptr;

// After a failed fsync the kernel marks the pages clean, so only bytes that are written again can be synced.
constexpr char kLost[] = "written, its fsync failed, and was not written again";

std::string PathOf(int descriptor) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(descriptor);
  const ssize_t size = readlink(link.c_str(), path.data(), path.size());
  return {path.data(), size < 0 ? 0 : static_cast<std::size_t>(size)};
}

std::string FolderOf(const std::string& path) { return std::filesystem::path(path).parent_path(); }

// Records the call. Returns whether it must fail; then errno has the reason.
bool Fails(DiskCalls::Call::Kind kind, const std::string& path, const std::string& to = "") {
  DiskCalls* const calls = watching;
  if (calls == nullptr) return false;
  const int error = calls->Add(kind, path, to);
  if (error != 0) errno = error;
  return error != 0;
}

}  // namespace

DiskCalls::DiskCalls(std::string below) : below_(std::move(below)) { watching = this; }

DiskCalls::~DiskCalls() { watching = nullptr; }

int DiskCalls::Add(Call::Kind kind, const std::string& path, const std::string& to) {
  if (!path.starts_with(below_)) return 0;
  return calls_.With([&](std::vector<Call>& calls) {
    if (calls.size() == end_at) _exit(0);
    calls.push_back({kind, path, to});
    const int error = fail ? fail(calls.back()) : 0;
    calls.back().failed = error != 0;
    return error;
  });
}

std::vector<DiskCalls::Call> DiskCalls::calls() {
  return calls_.With([](const std::vector<Call>& calls) { return calls; });
}

std::vector<std::string> DiskCalls::NotDurable() {
  std::map<std::string, std::string> bytes;            // files with unsynced bytes, and the reason
  std::map<std::string, std::set<std::string>> names;  // by folder
  std::vector<std::string> bad;
  for (const Call& call : calls()) {
    const bool is_lost = bytes.contains(call.path) && bytes.at(call.path) == kLost;
    if (call.failed) {
      if (call.kind == Call::Kind::kSync) bytes[call.path] = kLost;
      continue;
    }
    switch (call.kind) {
      case Call::Kind::kCreate:
      case Call::Kind::kMakeFolder: names[FolderOf(call.path)].insert(call.path); break;
      case Call::Kind::kWrite: bytes[call.path] = "written"; break;
      case Call::Kind::kTruncate: bytes[call.path] = "truncated"; break;
      case Call::Kind::kSync:
        if (!is_lost) bytes.erase(call.path);
        names.erase(call.path);
        break;
      case Call::Kind::kUnlink:
        bytes.erase(call.path);
        names[FolderOf(call.path)].erase(call.path);
        break;
      case Call::Kind::kRename:
        if (bytes.contains(call.path)) bad.push_back(call.to + " got a name before its bytes were synced");
        names[FolderOf(call.path)].erase(call.path);
        names[FolderOf(call.to)].insert(call.to);
        break;
    }
  }
  for (const auto& [path, what] : bytes) bad.push_back(path + " was " + what + ", and not synced");
  for (const auto& [folder, paths] : names) {
    for (const std::string& path : paths) bad.push_back(path + " has a name in a folder that was not synced");
  }
  return bad;
}

}  // namespace capstan::testing

// These functions replace the C library's. Each records its call, and then fails as the test wants or makes the call.
extern "C" {

using capstan::testing::Fails;
using capstan::testing::PathOf;
using Kind = capstan::testing::DiskCalls::Call::Kind;

int open(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & (O_CREAT | O_TMPFILE)) != 0) {
    va_list more;
    va_start(more, flags);
    mode = static_cast<mode_t>(va_arg(more, int));
    va_end(more);
  }
  struct stat info {};
  const bool exists = stat(path, &info) == 0;
  if (!exists && (flags & O_CREAT) != 0 && Fails(Kind::kCreate, path)) return -1;
  if (exists && (flags & O_TRUNC) != 0 && info.st_size > 0 && Fails(Kind::kTruncate, path)) return -1;
  return static_cast<int>(syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = static_cast<mode_t>(va_arg(more, int));
  va_end(more);
  return open(path, flags, mode);
}
ssize_t write(int fd, const void* bytes, size_t size) {
  if (Fails(Kind::kWrite, PathOf(fd))) return -1;
  return syscall(SYS_write, fd, bytes, size);
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t at) {
  if (Fails(Kind::kWrite, PathOf(fd))) return -1;
  return syscall(SYS_pwrite64, fd, bytes, size, at);
}
ssize_t pwrite64(int fd, const void* bytes, size_t size, off_t at) { return pwrite(fd, bytes, size, at); }
int ftruncate(int fd, off_t size) noexcept {
  if (Fails(Kind::kTruncate, PathOf(fd))) return -1;
  return static_cast<int>(syscall(SYS_ftruncate, fd, size));
}
int ftruncate64(int fd, off_t size) noexcept { return ftruncate(fd, size); }
int fsync(int fd) {
  if (Fails(Kind::kSync, PathOf(fd))) return -1;
  return static_cast<int>(syscall(SYS_fsync, fd));
}
int fdatasync(int fd) {
  if (Fails(Kind::kSync, PathOf(fd))) return -1;
  return static_cast<int>(syscall(SYS_fdatasync, fd));
}
int rename(const char* from, const char* to) noexcept {
  if (Fails(Kind::kRename, from, to)) return -1;
  return static_cast<int>(syscall(SYS_rename, from, to));
}
int mkdir(const char* path, mode_t mode) noexcept {
  struct stat info {};
  if (stat(path, &info) != 0 && Fails(Kind::kMakeFolder, path)) return -1;
  return static_cast<int>(syscall(SYS_mkdir, path, mode));
}
int unlink(const char* path) noexcept {
  struct stat info {};
  if (lstat(path, &info) == 0 && Fails(Kind::kUnlink, path)) return -1;
  return static_cast<int>(syscall(SYS_unlink, path));
}

}  // extern "C"
