#include "server/storage/file_coordinator_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "server/storage/log_record_codec.h"
#include "server/storage/log_text.h"
#include "server/storage/sealed_text.h"
#include "server/storage/sync_folder.h"

namespace capstan::server {

namespace {

Status DiskFailed(const std::string& path, const char* what) {
  return Unreachable(path + ": " + what + " failed: " + std::strerror(errno));
}

Status SyncFolderOf(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path();
  return SyncFolder(folder.empty() ? "." : folder);
}

Result<std::string> ReadAll(int descriptor, const std::string& path) {
  struct stat info {};
  if (fstat(descriptor, &info) != 0) return DiskFailed(path, "stat");
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t count = pread(descriptor, text.data() + have, text.size() - have, static_cast<off_t>(have));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return DiskFailed(path, "read");
    if (count == 0) break;
    have += static_cast<std::size_t>(count);
  }
  text.resize(have);
  return text;
}

Status WriteAll(int descriptor, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return DiskFailed(path, "write");
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return {};
}

// A file with these bytes, durable but for its name.
Status WriteNewFile(const std::string& path, std::string_view bytes) {
  const int descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (descriptor < 0) return DiskFailed(path, "open");
  Status status = WriteAll(descriptor, bytes, path);
  if (status.ok() && fsync(descriptor) != 0) status = DiskFailed(path, "fsync");
  close(descriptor);
  return status;
}

}  // namespace

Result<std::vector<LogRecord>> FileCoordinatorLog::Look(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return DiskFailed(path, "open");
  const Result<std::string> text = ReadAll(descriptor, path);
  close(descriptor);
  if (!text.ok()) return text.status();
  CAPSTAN_ASSIGN_OR_RETURN(ParsedLog log, ParseLogText(path, *text));
  return std::move(log.records);
}

Status FileCoordinatorLog::Replace(std::unique_ptr<FileCoordinatorLog> log, const std::vector<LogRecord>& records) {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string text, PrintLogText(records));
  const std::string partial = log->path_ + ".partial";
  Status status = WriteNewFile(partial, text);
  if (status.ok() && rename(partial.c_str(), log->path_.c_str()) != 0) status = DiskFailed(log->path_, "rename");
  if (status.ok()) return SyncFolderOf(log->path_);
  unlink(partial.c_str());
  return status;
}

Result<std::unique_ptr<FileCoordinatorLog>> FileCoordinatorLog::Open(const std::string& path, double wait_seconds) {
  Result<FileLock> lock = FileLock::Acquire(path, wait_seconds);
  if (!lock.ok() && lock.status().code() == Code::kBusy) {
    return Refused(path + ": another coordinator uses this directory; end it first, or choose another run directory");
  }
  if (!lock.ok()) return lock.status();
  std::unique_ptr<FileCoordinatorLog> log(new FileCoordinatorLog(path, std::move(lock).value()));
  CAPSTAN_RETURN_IF_ERROR(log->Read());
  if (!log->begun_) {
    CAPSTAN_RETURN_IF_ERROR(log->WriteLine(EncodeLogHeader()));
    CAPSTAN_RETURN_IF_ERROR(SyncFolderOf(path));
  }
  return log;
}

Status FileCoordinatorLog::Append(LogRecord record) {
  if (!failure_.ok()) return failure_;
  CAPSTAN_ASSIGN_OR_RETURN(const std::string json, EncodeLogRecord(record));
  CAPSTAN_RETURN_IF_ERROR(WriteLine(json));
  records_.push_back(std::move(record));
  return {};
}

Status FileCoordinatorLog::Read() {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string text, ReadAll(lock_.descriptor(), path_));
  CAPSTAN_ASSIGN_OR_RETURN(ParsedLog log, ParseLogText(path_, text));
  records_ = std::move(log.records);
  last_hash_ = log.last_hash;
  begun_ = log.begun;
  return log.whole_bytes < text.size() ? CutTo(log.whole_bytes) : Status();
}

Status FileCoordinatorLog::CutTo(std::size_t size) {
  if (ftruncate(lock_.descriptor(), static_cast<off_t>(size)) != 0) return DiskFailed(path_, "truncate");
  if (fsync(lock_.descriptor()) != 0) return DiskFailed(path_, "fsync");
  return {};
}

Status FileCoordinatorLog::WriteLine(std::string_view json) {
  const std::string line = Seal(last_hash_, json) + '\n';
  if (lseek(lock_.descriptor(), 0, SEEK_END) < 0) return failure_ = DiskFailed(path_, "seek");
  if (Status status = WriteAll(lock_.descriptor(), line, path_); !status.ok()) return failure_ = std::move(status);
  if (fdatasync(lock_.descriptor()) != 0) return failure_ = DiskFailed(path_, "fdatasync");
  last_hash_ = *StatedHash(line);
  begun_ = true;
  return {};
}

}  // namespace capstan::server
