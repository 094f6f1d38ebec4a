// TensorBoardLog: the figures of committed steps as curves for TensorBoard, in RUN_DIR/tensorboard.
//
// Kind:   owned by one thread.
// Limits: kPointsMax points of each curve from one start to the job's end: a job of more steps has a point for every
//         n-th. A point takes about 230 bytes, and 85 more for each of at most kMetricsMax metrics. kEventFilesMax
//         files.
// Fails:  as EventFile; the points that could not be written are left out, and the next one tries again.
// Why:    TensorBoard shows a thousand points of a curve, so more would only fill the disk. metrics.jsonl has every
//         step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "server/coordinator/event_file.h"
#include "update/verdict.h"

namespace capstan::server {

inline constexpr std::uint64_t kPointsMax = 10'000;

class TensorBoardLog {
 public:
  // `steps`: of the job. Nothing is written before the first step.
  TensorBoardLog(std::string folder, std::uint64_t steps);

  // Writes the points that are due among these steps. `seconds`: the time of day, since 1970.
  Status Append(const std::vector<StepRecord>& records, double seconds);

 private:
  // Returns the records of the file for a step; empty if none is due.
  std::string RecordsOf(const StepRecord& record, double seconds);

  std::string folder_;
  std::uint64_t steps_, stride_;
  std::optional<EventFile> file_;
  std::uint64_t next_step_ = 0;                         // behind the newest step that was seen
  std::uint64_t next_point_ = 0, next_validation_ = 0;  // the steps from which a point is due
};

}  // namespace capstan::server
