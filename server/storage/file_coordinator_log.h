// FileCoordinatorLog: the coordinator's records in a file, one sealed line of JSON each (sealed_text.h).
//
// Kind:   owned by the coordinator's thread. The file is locked: one process at a time uses it.
// Limits: with a Compaction, and unless compacting fails, the file grows to bytes_min or to about kGrowth times what
//         the records in force take.
// Fails:  Open: kRefused, another coordinator has the file; kCorrupt, the file is damaged before its end; kUnsupported,
//         a newer build wrote it; kUnreachable, the disk fails. Append: kInvalid, the record cannot be encoded; kBusy,
//         the disk is full, the log is unchanged and the same call may succeed later; kUnreachable, also from every
//         later Append.
// Why:    a failed fsync is never repeated, because the kernel marks pages clean that it could not write. For the same
//         reason Open writes the bytes again that it has read: they may have been only in the page cache. log_text.h
//         explains how damage is found.
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
  // When the file is replaced by the records that are in force (manifests.h): once it has at least `bytes_min` bytes,
  // and kGrowth times its size after the last replacement.
  struct Compaction {
    std::uint32_t keep;  // number of snapshots that are kept
    std::uint64_t bytes_min = std::uint64_t{1} << 20;
  };
  static constexpr std::uint64_t kGrowth = 4;

  // Makes the file if there is none. Waits at most `wait_seconds` for another coordinator to end.
  static Result<std::unique_ptr<FileCoordinatorLog>> Open(const std::string& path, double wait_seconds,
                                                          std::optional<Compaction> compaction = std::nullopt);

  // Reads the file's present records. Takes no lock and changes nothing, so another process may be writing; an
  // incomplete last line is left out.
  static Result<std::vector<LogRecord>> Look(const std::string& path);
  // Replaces the log's records by these, atomically.
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
  std::uint64_t bytes_ = 0;       // size of the file
  std::uint64_t compact_at_ = 0;  // file size at which it is compacted
  bool begun_ = false;            // whether the first line, which states the format, is there
  Status failure_;                // the disk's failure, which is final
};

}  // namespace capstan::server
