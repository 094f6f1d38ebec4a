// StepLog: metrics.jsonl, one line for each committed step.
//
// Kind:   owned by one thread.
// Limits: those of line_file.h.
// Fails:  as LineFile.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "server/coordinator/line_file.h"
#include "update/verdict.h"

namespace capstan::server {

// Returns the step as a JSON object without a newline.
std::string StepLine(const StepRecord& record);

// Reads what StepLine wrote, except metrics and the loss scale; nothing for another text. A figure that is null or
// absent is NaN.
std::optional<StepRecord> ParseStepLine(std::string_view line);

class StepLog {
 public:
  // Opens the file to append after its last whole line.
  static Result<StepLog> Open(std::string path, LineFileLimits limits = {});

  const std::string& path() const { return file_.path(); }
  Status Append(const std::vector<StepRecord>& records);
  // Writes the lines that a failed Append has left.
  Status Flush() { return file_.Flush(); }

 private:
  explicit StepLog(LineFile file) : file_(std::move(file)) {}

  LineFile file_;
};

}  // namespace capstan::server
