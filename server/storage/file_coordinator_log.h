// FileCoordinatorLog: a coordinator's records in a file, one sealed line of JSON each (sealed_text.h).
//
// Kind:   owned by the coordinator's thread. One process at a time has the file.
// Fails:  Open: kRefused, another coordinator has it; kCorrupt, damaged before its end; kUnsupported, of a newer build;
//         kUnreachable, the disk fails. Append: kInvalid; kUnreachable, and then every later Append says the same.
// Why:    a failed fsync is never repeated: the kernel calls the pages clean that it could not write. What its lines
//         say of damage is in log_text.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/file_lock.h"
#include "common/status.h"
#include "server/coordinator_log.h"

namespace capstan::server {

class FileCoordinatorLog : public CoordinatorLog {
 public:
  // Makes the file when there is none. Waits at most `wait_seconds` for another coordinator to end.
  static Result<std::unique_ptr<FileCoordinatorLog>> Open(const std::string& path, double wait_seconds);

  // The records as they are now, whoever writes to the file: takes no lock and changes nothing. A line that is torn, or
  // on its way, is left out.
  static Result<std::vector<LogRecord>> Look(const std::string& path);
  // These records in the place of the log's own, all or nothing. The file is another one then: `log` ends with this.
  static Status Replace(std::unique_ptr<FileCoordinatorLog> log, const std::vector<LogRecord>& records);

  Status Append(LogRecord record) override;
  const std::vector<LogRecord>& records() const override { return records_; }

 private:
  FileCoordinatorLog(std::string path, FileLock lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  Status Read();
  Status CutTo(std::size_t size);
  Status WriteLine(std::string_view json);

  std::string path_;
  FileLock lock_;
  std::vector<LogRecord> records_;
  std::uint64_t last_hash_ = 0;
  bool begun_ = false;  // the first line, which states the format, is there
  Status failure_;      // of the disk, for good
};

}  // namespace capstan::server
