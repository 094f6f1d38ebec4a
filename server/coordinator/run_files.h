// RunFiles: the files that a coordinator writes in its run directory: its log, metrics.jsonl, audit.jsonl,
// final.safetensors and the files in tensorboard/.
//
// Kind:   owned by the coordinator loop's thread.
// Fails:  Open: a run directory that cannot be written. The others: a file that cannot be written, or a wait for room
//         that was given up.
// Why:    on a full disk a write waits for room (room_wait.h). The job's clock stands still meanwhile, so the files and
//         the clock belong together.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/coordinator/audit_log.h"
#include "server/coordinator/step_log.h"
#include "server/coordinator/tensorboard_log.h"
#include "server/storage/coordinator_log.h"
#include "server/storage/room_wait.h"

namespace capstan::server {

class RunFiles {
 public:
  // `run_dir` must exist. If `log` is null, the log is kept in memory. `curves`: nothing if the job wants none.
  static Result<std::unique_ptr<RunFiles>> Open(std::string run_dir, std::unique_ptr<CoordinatorLog> log,
                                                RoomWait::Options room, std::optional<TensorBoardLog> curves = {});
  RunFiles(const RunFiles&) = delete;
  RunFiles& operator=(const RunFiles&) = delete;

  // The coordinator's log, whose Append waits for room.
  CoordinatorLog* log() { return log_.get(); }
  // Appends the steps to metrics.jsonl.
  Status Append(const std::vector<StepRecord>& records);
  // Appends the steps to the curves for TensorBoard, if the job wants them. Returns the first failure of several in a
  // row; none fails the job.
  Status AppendCurves(const std::vector<StepRecord>& records);
  // Appends what happened now to audit.jsonl. Returns the first failure of several in a row; none fails the job.
  Status Audit(const std::vector<AuditEntry>& entries);
  // Ends audit.jsonl.
  void EndAudit() { (void)audit_log_.End(); }
  // Calls `create` with the path of final.safetensors, again and again while the disk has no room for the file.
  Status CreateFinalWeights(const std::function<Status(const std::string& path)>& create);
  // Returns the job's time: it excludes the time spent waiting for room.
  Instant JobTime() const;

 private:
  RunFiles(std::string run_dir, std::unique_ptr<CoordinatorLog> log, RoomWait::Options room, StepLog step_log,
           AuditLog audit_log, std::optional<TensorBoardLog> curves);

  const std::string run_dir_;
  RoomWait room_;
  const std::unique_ptr<CoordinatorLog> log_;
  StepLog step_log_;
  AuditLog audit_log_;
  std::optional<TensorBoardLog> curves_;
  bool audit_fails_ = false, curves_fail_ = false;
};

}  // namespace capstan::server
