#include "common/base/durable_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace capstan {
namespace {

namespace fs = std::filesystem;

Status WriteAll(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return DiskFailure("write", path, errno);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return fsync(descriptor) == 0 ? Status() : DiskFailure("fsync", path, errno);
}

}  // namespace

Status DiskFailure(const char* what, const std::string& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return {full ? Code::kBusy : Code::kUnreachable,
          std::string("cannot ") + what + " " + path + ": " + std::strerror(error)};
}

std::string FolderOf(const std::string& path) {
  const std::string folder = fs::path(path).parent_path();
  return folder.empty() ? "." : folder;
}

std::uint64_t FreeBytes(const std::string& path) {
  struct statvfs disk {};
  if (statvfs(path.c_str(), &disk) != 0 && statvfs(FolderOf(path).c_str(), &disk) != 0) return 0;
  return std::uint64_t{disk.f_bavail} * disk.f_frsize;
}

Status SyncFolder(const std::string& folder) {
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && fsync(descriptor) == 0;
  const Status status = synced ? Status() : DiskFailure("fsync", folder, errno);
  if (descriptor >= 0) close(descriptor);
  return status;
}

namespace {

Status MakeFolder(const std::string& path, mode_t mode) {
  std::error_code error;
  if (path.empty() || fs::is_directory(path, error)) return {};
  CAPSTAN_RETURN_IF_ERROR(MakeFolder(fs::path(path).parent_path(), 0777));
  const int made = mkdir(path.c_str(), mode);
  const int why = errno;
  if (made != 0 && !(why == EEXIST && fs::is_directory(path, error))) return DiskFailure("make the folder", path, why);
  return SyncFolder(FolderOf(path));
}

}  // namespace

Status MakeParents(const std::string& path) { return MakeFolder(fs::path(path).parent_path(), 0777); }

Status MakeFolders(const std::string& path) { return MakeFolder(path, 0700); }

Status RenameDurably(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) != 0) return DiskFailure("rename to", to, errno);
  return SyncFolder(FolderOf(to));
}

Result<int> OpenNew(const std::string& path, mode_t mode) {
  unlink(path.c_str());  // what a process left that ended while it wrote, or a link of somebody else
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (descriptor < 0) return DiskFailure("write", path, errno);
  return descriptor;
}

Status WriteFileDurably(const std::string& path, std::string_view bytes) {
  const std::string partial = path + ".partial";
  CAPSTAN_ASSIGN_OR_RETURN(const int descriptor, OpenNew(partial));
  Status status = WriteAll(descriptor, bytes, partial);
  close(descriptor);
  if (status.ok()) return RenameDurably(partial, path);
  unlink(partial.c_str());
  return status;
}

}  // namespace capstan
