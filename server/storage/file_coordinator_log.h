// FileCoordinatorLog: a coordinator's records in a file, one sealed line of JSON each (sealed_text.h).
//
// Kind:   owned by the coordinator's thread. One process at a time has the file.
// Limits: with a Compaction, the file and its records stay within a multiple of what is in force of them.
// Fails:  Open: kRefused, another coordinator has it; kCorrupt, damaged before its end; kUnsupported, of a newer build;
//         kUnreachable, the disk fails. Append: kInvalid; kBusy, the disk is full, the log is as it was and the same
//         call may succeed later; kUnreachable, and then every later Append says the same.
// Why:    a failed fsync is never repeated: the kernel calls the pages clean that it could not write. For the same
//         reason Open writes again what it has read: only the page cache may have had it. What its lines say of damage
//         is in log_text.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/file_lock.h"
#include "common/base/status.h"
#include "server/storage/coordinator_log.h"

namespace capstan::server {

class FileCoordinatorLog : public CoordinatorLog {
 public:
  // When the file has `bytes_min`, and kGrowth times what it had after the last time, it is replaced by the records
  // that are in force (manifests.h).
  struct Compaction {
    std::uint32_t keep;  // snapshots
    std::uint64_t bytes_min = std::uint64_t{1} << 20;
  };
  static constexpr std::uint64_t kGrowth = 4;

  // Makes the file when there is none. Waits at most `wait_seconds` for another coordinator to end.
  static Result<std::unique_ptr<FileCoordinatorLog>> Open(const std::string& path, double wait_seconds,
                                                          std::optional<Compaction> compaction = std::nullopt);

  // The records as they are now, whoever writes to the file: takes no lock and changes nothing. A line that is torn, or
  // on its way, is left out.
  static Result<std::vector<LogRecord>> Look(const std::string& path);
  // These records in the place of the log's own, all or nothing.
  Status Replace(std::vector<LogRecord> records);

  Status Append(LogRecord record) override;
  const std::vector<LogRecord>& records() const override { return records_; }

 private:
  FileCoordinatorLog(std::string path, FileLock lock, std::optional<Compaction> compaction)
      : path_(std::move(path)), lock_(std::move(lock)), compaction_(compaction) {}

  std::string partial() const { return path_ + ".partial"; }
  Status Read();
  Status CutTo(std::size_t size);
  Status WriteAgain(std::string_view text);
  Status WriteLine(std::string_view json);
  Result<FileLock> WritePartial(std::string_view text) const;
  void CompactIfLarge();

  std::string path_;
  FileLock lock_;
  std::optional<Compaction> compaction_;
  std::vector<LogRecord> records_;
  std::uint64_t last_hash_ = 0;
  std::uint64_t bytes_ = 0;       // of the file
  std::uint64_t compact_at_ = 0;  // bytes
  bool begun_ = false;            // the first line, which states the format, is there
  Status failure_;                // of the disk, for good
};

}  // namespace capstan::server
