// StepLog: metrics.jsonl, one line for each committed step.
//
// Kind:   owned by one thread.
// Limits: StepLogLimits; older lines are deleted (rotated_file.h).
// Fails:  kBusy: the disk is full, and Flush may succeed later; kUnreachable: the file cannot be written. Lines that
//         were written whole stay.
// Why:    lines are appended whole, so a reader that follows the file sees whole steps. An incomplete line that a full
//         disk or a crash left is cut off; otherwise the next step's line would be damaged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "update/verdict.h"

namespace capstan::server {

// Returns the step as a JSON object without a newline.
std::string StepLine(const StepRecord& record);

struct StepLogLimits {
  std::uint64_t file_bytes = std::uint64_t{64} << 20;  // a file of this size is rotated
  std::size_t former_files = 7;
};

class StepLog {
 public:
  // Opens the file to append after its last whole line.
  static Result<StepLog> Open(std::string path, StepLogLimits limits = {});
  ~StepLog();
  StepLog(StepLog&& other) noexcept;
  StepLog& operator=(StepLog&&) = delete;

  const std::string& path() const { return path_; }
  Status Append(const std::vector<StepRecord>& records);
  // Writes the lines that a failed Append has left.
  Status Flush();

 private:
  StepLog(std::string path, StepLogLimits limits, int fd) : path_(std::move(path)), limits_(limits), fd_(fd) {}
  // Cuts off everything after the last whole line.
  Status CutTornLine();
  void RotateIfLarge();

  std::string path_;
  StepLogLimits limits_;
  int fd_;
  std::string unwritten_;  // whole lines that are not written yet
};

}  // namespace capstan::server
