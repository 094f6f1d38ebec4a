// StepLog: metrics.jsonl, one line for each committed step.
//
// Kind:   owned by one thread.
// Fails:  kUnreachable when the file cannot be written.
// Why:    lines are appended whole, so that a reader that follows the file sees whole steps.
#pragma once

#include <string>
#include <vector>

#include "common/status.h"
#include "server/verdict.h"

namespace capstan::server {

// A JSON object without a newline.
std::string StepLine(const StepRecord& record);

// null for what is not a finite number.
std::string JsonNumber(double value);

class StepLog {
 public:
  // Appends to what is there.
  static Result<StepLog> Open(std::string path);
  ~StepLog();
  StepLog(StepLog&& other) noexcept;
  StepLog& operator=(StepLog&&) = delete;

  Status Append(const std::vector<StepRecord>& records);

 private:
  StepLog(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::string path_;
  int fd_;
};

}  // namespace capstan::server
