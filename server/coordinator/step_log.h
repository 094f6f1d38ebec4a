// StepLog: metrics.jsonl, one line for each committed step.
//
// Kind:   owned by one thread.
// Limits: StepLogLimits; lines that are older are given up (rotated_file.h).
// Fails:  kBusy: the disk is full, and Flush may succeed later; kUnreachable: the file cannot be written. It keeps the
//         lines that went in whole.
// Why:    lines are appended whole, so that a reader that follows the file sees whole steps. Half a line that a full
//         disk or a crash left is cut off, or the next step would be lost behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "update/verdict.h"

namespace capstan::server {

// A JSON object without a newline.
std::string StepLine(const StepRecord& record);

// null for what is not a finite number.
std::string JsonNumber(double value);

struct StepLogLimits {
  std::uint64_t file_bytes = std::uint64_t{64} << 20;  // a file that has as many becomes a former one
  std::size_t former_files = 7;
};

class StepLog {
 public:
  // Appends to the whole lines that are there.
  static Result<StepLog> Open(std::string path, StepLogLimits limits = {});
  ~StepLog();
  StepLog(StepLog&& other) noexcept;
  StepLog& operator=(StepLog&&) = delete;

  const std::string& path() const { return path_; }
  Status Append(const std::vector<StepRecord>& records);
  // Writes what an Append that failed has left.
  Status Flush();

 private:
  StepLog(std::string path, StepLogLimits limits, int fd) : path_(std::move(path)), limits_(limits), fd_(fd) {}
  // Cuts off what is behind the last whole line.
  Status CutTornLine();
  void RotateIfLarge();

  std::string path_;
  StepLogLimits limits_;
  int fd_;
  std::string unwritten_;  // whole lines
};

}  // namespace capstan::server
