#include "server/storage/file_coordinator_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "common/base/durable_file.h"
#include "server/storage/log_record_codec.h"
#include "server/storage/log_text.h"
#include "server/storage/manifests.h"
#include "server/storage/sealed_text.h"

namespace capstan::server {

namespace {

// Returns the error of a failed system call, with errno.
Status DiskFailed(const std::string& path, const char* what) {
  return Unreachable(path + ": " + what + " failed: " + std::strerror(errno));
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

Status WriteAll(int descriptor, std::uint64_t at, std::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(descriptor, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return DiskFailure("write", path, errno);
    bytes.remove_prefix(static_cast<std::size_t>(count));
    at += static_cast<std::uint64_t>(count);
  }
  return {};
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

Result<std::unique_ptr<FileCoordinatorLog>> FileCoordinatorLog::Open(const std::string& path, double wait_seconds,
                                                                     std::optional<Compaction> compaction) {
  Result<FileLock> lock = FileLock::Acquire(path, wait_seconds);
  if (!lock.ok() && lock.status().code() == Code::kBusy) {
    return Refused(path + ": another coordinator uses this directory; end it first, or choose another run directory");
  }
  if (!lock.ok()) return lock.status();
  std::unique_ptr<FileCoordinatorLog> log(new FileCoordinatorLog(path, std::move(lock).value(), compaction));
  CAPSTAN_RETURN_IF_ERROR(log->Read());
  unlink(log->partial().c_str());  // left by a process that ended while it replaced the log
  if (!log->begun_) CAPSTAN_RETURN_IF_ERROR(log->WriteLine(EncodeLogHeader()));
  CAPSTAN_RETURN_IF_ERROR(SyncFolder(FolderOf(path)));
  if (compaction) log->compact_at_ = compaction->bytes_min;
  log->CompactIfLarge();
  return log;
}

Status FileCoordinatorLog::Append(LogRecord record) {
  if (!failure_.ok()) return failure_;
  CAPSTAN_ASSIGN_OR_RETURN(const std::string json, EncodeLogRecord(record));
  CAPSTAN_RETURN_IF_ERROR(WriteLine(json));
  records_.push_back(std::move(record));
  CompactIfLarge();
  return {};
}

Status FileCoordinatorLog::Read() {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string text, ReadAll(lock_.descriptor(), path_));
  CAPSTAN_ASSIGN_OR_RETURN(ParsedLog log, ParseLogText(path_, text));
  records_ = std::move(log.records);
  last_hash_ = log.last_hash;
  begun_ = log.begun;
  bytes_ = log.whole_bytes;
  if (log.whole_bytes < text.size()) CAPSTAN_RETURN_IF_ERROR(CutTo(log.whole_bytes));
  return WriteAgain(std::string_view(text).substr(0, log.whole_bytes));
}

Status FileCoordinatorLog::CutTo(std::size_t size) {
  if (ftruncate(lock_.descriptor(), static_cast<off_t>(size)) != 0) return DiskFailed(path_, "truncate");
  if (fsync(lock_.descriptor()) != 0) return DiskFailed(path_, "fsync");
  return {};
}

// Writes the file's bytes again and makes them durable, in case the previous process could not.
Status FileCoordinatorLog::WriteAgain(std::string_view text) {
  CAPSTAN_RETURN_IF_ERROR(WriteAll(lock_.descriptor(), 0, text, path_));
  return fsync(lock_.descriptor()) == 0 ? Status() : DiskFailed(path_, "fsync");
}

Status FileCoordinatorLog::WriteLine(std::string_view json) {
  const std::string line = Seal(last_hash_, json) + '\n';
  if (Status status = WriteAll(lock_.descriptor(), bytes_, line, path_); !status.ok()) {
    const bool whole = ftruncate(lock_.descriptor(), static_cast<off_t>(bytes_)) == 0;
    if (status.code() == Code::kBusy && whole) return status;
    return failure_ = Unreachable(status.message());
  }
  if (fdatasync(lock_.descriptor()) != 0) return failure_ = DiskFailed(path_, "fdatasync");
  last_hash_ = *StatedHash(line);
  bytes_ += line.size();
  begun_ = true;
  return {};
}

// ---- replacing -----------------------------------------------------------------------------------------------------

// Makes a file with these bytes, durable except for its name, and locked before it gets the log's name.
Result<FileLock> FileCoordinatorLog::WritePartial(std::string_view text) const {
  unlink(partial().c_str());
  CAPSTAN_ASSIGN_OR_RETURN(FileLock file, FileLock::Acquire(partial(), 0));
  Status status = WriteAll(file.descriptor(), 0, text, partial());
  if (status.ok() && fsync(file.descriptor()) != 0) status = DiskFailed(partial(), "fsync");
  if (status.ok()) return file;
  unlink(partial().c_str());
  return status;
}

Status FileCoordinatorLog::Replace(std::vector<LogRecord> records) {
  if (!failure_.ok()) return failure_;
  CAPSTAN_ASSIGN_OR_RETURN(const std::string text, PrintLogText(records));
  CAPSTAN_ASSIGN_OR_RETURN(FileLock file, WritePartial(text));
  if (rename(partial().c_str(), path_.c_str()) != 0) {
    const Status failed = DiskFailed(path_, "rename");
    unlink(partial().c_str());
    return failed;
  }
  lock_ = std::move(file);
  last_hash_ = *StatedHash(std::string_view(text).substr(text.rfind('\n', text.size() - 2) + 1));
  bytes_ = text.size();
  records_ = std::move(records);
  // Without this, a power cut may bring the old file back, without the records that are appended from here on.
  if (Status status = SyncFolder(FolderOf(path_)); !status.ok()) return failure_ = Unreachable(status.message());
  return {};
}

// Compacts a log that has grown enough. If that fails, the log goes on growing, so a full disk does not end the job.
void FileCoordinatorLog::CompactIfLarge() {
  if (!compaction_ || bytes_ < compact_at_ || !failure_.ok()) return;
  const Status replaced = Replace(RecordsInForce(records_, compaction_->keep));
  compact_at_ = replaced.ok() ? std::max(compaction_->bytes_min, kGrowth * bytes_) : bytes_ + compaction_->bytes_min;
}

}  // namespace capstan::server
