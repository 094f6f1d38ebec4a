// StepLog: metrics.jsonl, one line for each committed step.
//
// Kind:   owned by one thread.
// Fails:  kUnreachable when the file cannot be written; it keeps the lines that went in whole.
// Why:    lines are appended whole, so that a reader that follows the file sees whole steps. Half a line that a full
//         disk or a crash left is cut off, or the next step would be lost behind it.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "update/verdict.h"

namespace capstan::server {

// A JSON object without a newline.
std::string StepLine(const StepRecord& record);

// null for what is not a finite number.
std::string JsonNumber(double value);

class StepLog {
 public:
  // Appends to the whole lines that are there.
  static Result<StepLog> Open(std::string path);
  ~StepLog();
  StepLog(StepLog&& other) noexcept;
  StepLog& operator=(StepLog&&) = delete;

  Status Append(const std::vector<StepRecord>& records);

 private:
  StepLog(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  // Cuts off what is behind the last whole line.
  Status CutTornLine();

  std::string path_;
  int fd_;
};

}  // namespace capstan::server
