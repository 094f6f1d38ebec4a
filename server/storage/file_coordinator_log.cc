#include "server/storage/file_coordinator_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "server/storage/log_record_codec.h"
#include "server/storage/sealed_text.h"

namespace capstan::server {

namespace {

Status DiskFailed(const std::string& path, const char* what) {
  return Unreachable(path + ": " + what + " failed: " + std::strerror(errno));
}

Status SyncFolderOf(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path();
  if (folder.empty()) folder = ".";
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return DiskFailed(folder, "open");
  const bool synced = fsync(descriptor) == 0;
  const Status status = synced ? Status() : DiskFailed(folder, "fsync");
  close(descriptor);
  return status;
}

bool LooksLikeRecord(std::string_view line) {
  return StatedHash(line) && line.size() > kSealBytes + 1 && line[kSealBytes] == '{' && line.back() == '}';
}

// Whether any complete line of `text` is, by its looks, a record.
bool HasRecord(std::string_view text) {
  while (true) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return false;
    if (LooksLikeRecord(text.substr(0, end))) return true;
    text.remove_prefix(end + 1);
  }
}

// Whether a whole record is the beginning of the line: then it is the end of the line that was damaged.
bool BeginsWithRecord(std::uint64_t previous, std::string_view line) {
  for (std::size_t end = line.find('}'); end != std::string_view::npos; end = line.find('}', end + 1)) {
    if (end + 1 < line.size() && Unseal(previous, line.substr(0, end + 1))) return true;
  }
  return false;
}

}  // namespace

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

Result<std::string> FileCoordinatorLog::ReadFile() const {
  struct stat info {};
  if (fstat(lock_.descriptor(), &info) != 0) return DiskFailed(path_, "stat");
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t count = pread(lock_.descriptor(), text.data() + have, text.size() - have, static_cast<off_t>(have));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return DiskFailed(path_, "read");
    if (count == 0) break;
    have += static_cast<std::size_t>(count);
  }
  text.resize(have);
  return text;
}

Status FileCoordinatorLog::Read() {
  CAPSTAN_ASSIGN_OR_RETURN(const std::string text, ReadFile());
  std::size_t begin = 0;
  for (std::uint64_t number = 1; begin < text.size(); ++number) {
    const std::size_t end = text.find('\n', begin);
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const bool whole = end != std::string::npos && Unseal(last_hash_, line);
    if (!whole) {
      CAPSTAN_RETURN_IF_ERROR(JudgeBadLine(text, begin, number));
      return CutTo(begin);
    }
    CAPSTAN_RETURN_IF_ERROR(TakeLine(line, number));
    begin = end + 1;
  }
  return {};
}

// A line that is as it was written.
Status FileCoordinatorLog::TakeLine(std::string_view line, std::uint64_t number) {
  const std::string_view json = line.substr(kSealBytes);
  Status status;
  if (begun_) {
    Result<LogRecord> record = DecodeLogRecord(json);
    status = record.status();
    if (record.ok()) records_.push_back(std::move(record).value());
  } else {
    status = CheckLogHeader(json);
  }
  if (!status.ok()) return {status.code(), path_ + ":" + std::to_string(number) + ": " + status.message()};
  begun_ = true;
  last_hash_ = *StatedHash(line);
  return {};
}

// Good when it is a torn tail.
Status FileCoordinatorLog::JudgeBadLine(std::string_view text, std::size_t begin, std::uint64_t number) const {
  const std::size_t end = text.find('\n', begin);
  const std::string_view line = text.substr(begin, end - begin);
  const bool followed = end != std::string_view::npos && HasRecord(text.substr(end + 1));
  if (!followed && !BeginsWithRecord(last_hash_, line)) return {};
  return Corrupt(path_ + ":" + std::to_string(number) +
                 ": this line is not what was written, and it is not the end of the log; the disk has damaged it or "
                 "somebody has edited it: put back a copy, or move the run directory away and start the job anew");
}

Status FileCoordinatorLog::CutTo(std::size_t size) {
  if (ftruncate(lock_.descriptor(), static_cast<off_t>(size)) != 0) return DiskFailed(path_, "truncate");
  if (fsync(lock_.descriptor()) != 0) return DiskFailed(path_, "fsync");
  return {};
}

Status FileCoordinatorLog::WriteLine(std::string_view json) {
  const std::string line = Seal(last_hash_, json) + '\n';
  std::size_t done = 0;
  if (lseek(lock_.descriptor(), 0, SEEK_END) < 0) return failure_ = DiskFailed(path_, "seek");
  while (done < line.size()) {
    const ssize_t count = write(lock_.descriptor(), line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure_ = DiskFailed(path_, "write");
    done += static_cast<std::size_t>(count);
  }
  if (fdatasync(lock_.descriptor()) != 0) return failure_ = DiskFailed(path_, "fdatasync");
  last_hash_ = *StatedHash(line);
  begun_ = true;
  return {};
}

}  // namespace capstan::server
