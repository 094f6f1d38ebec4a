// FileCoordinatorLog: a coordinator's records in a file, one sealed line of JSON each (sealed_text.h).
//
// Kind:   owned by the coordinator's thread. One process at a time has the file.
// Fails:  Open: kRefused, another coordinator has it; kCorrupt, damaged before its end; kUnsupported, of a newer build;
//         kUnreachable, the disk fails. Append: kInvalid; kUnreachable, and then every later Append says the same.
// Why:    the hash of each line goes into the next one's, so a line that is missing, changed or out of place is
// noticed.
//         Only the last line can have been cut off by the end of a process, and nobody had been told of it; a bad line
//         anywhere else is damage, which a person has to look at. A failed fsync is never repeated: the kernel calls
//         the pages clean that it could not write.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/status.h"
#include "server/coordinator_log.h"
#include "common/file_lock.h"

namespace capstan::server {

class FileCoordinatorLog : public CoordinatorLog {
 public:
  // Makes the file when there is none. Waits at most `wait_seconds` for another coordinator to end.
  static Result<std::unique_ptr<FileCoordinatorLog>> Open(const std::string& path, double wait_seconds);

  Status Append(LogRecord record) override;
  const std::vector<LogRecord>& records() const override { return records_; }

 private:
  FileCoordinatorLog(std::string path, FileLock lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  Status Read();
  Result<std::string> ReadFile() const;
  Status TakeLine(std::string_view line, std::uint64_t number);
  Status JudgeBadLine(std::string_view text, std::size_t begin, std::uint64_t number) const;
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
