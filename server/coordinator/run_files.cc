#include "server/coordinator/run_files.h"
#include "common/base/unix_time.h"

#include <utility>

namespace capstan::server {
namespace {

// A log that waits for free disk space in Append.
class PatientLog : public CoordinatorLog {
 public:
  PatientLog(std::unique_ptr<CoordinatorLog> log, std::string path, RoomWait* room)
      : log_(std::move(log)), path_(std::move(path)), room_(room) {}
  Status Append(LogRecord record) override {
    return room_->Write(path_, [&] { return log_->Append(record); });
  }
  const std::vector<LogRecord>& records() const override { return log_->records(); }

 private:
  const std::unique_ptr<CoordinatorLog> log_;
  const std::string path_;
  RoomWait* const room_;
};

}  // namespace

Result<std::unique_ptr<RunFiles>> RunFiles::Open(std::string run_dir, std::unique_ptr<CoordinatorLog> log,
                                                 RoomWait::Options room, std::optional<TensorBoardLog> curves) {
  CAPSTAN_ASSIGN_OR_RETURN(StepLog step_log, StepLog::Open(run_dir + "/metrics.jsonl"));
  CAPSTAN_ASSIGN_OR_RETURN(AuditLog audit_log, AuditLog::Open(run_dir + "/audit.jsonl"));
  if (!log) log = std::make_unique<MemoryCoordinatorLog>();
  return std::unique_ptr<RunFiles>(new RunFiles(std::move(run_dir), std::move(log), std::move(room),
                                                std::move(step_log), std::move(audit_log), std::move(curves)));
}

RunFiles::RunFiles(std::string run_dir, std::unique_ptr<CoordinatorLog> log, RoomWait::Options room, StepLog step_log,
                   AuditLog audit_log, std::optional<TensorBoardLog> curves)
    : run_dir_(std::move(run_dir)),
      room_(std::move(room)),
      log_(std::make_unique<PatientLog>(std::move(log), run_dir_ + "/snapshots", &room_)),
      step_log_(std::move(step_log)),
      audit_log_(std::move(audit_log)),
      curves_(std::move(curves)) {}

Status RunFiles::Append(const std::vector<StepRecord>& records) {
  Status status = step_log_.Append(records);
  if (status.code() == Code::kBusy) status = room_.Write(step_log_.path(), [this] { return step_log_.Flush(); });
  return status;
}

Status RunFiles::AppendCurves(const std::vector<StepRecord>& records) {
  if (!curves_) return {};
  Status status = curves_->Append(records, UnixTime());
  if (std::exchange(curves_fail_, !status.ok())) return {};
  return status;
}

Status RunFiles::Audit(const std::vector<AuditEntry>& entries) {
  Status status = audit_log_.Append(entries, std::chrono::system_clock::now());
  if (std::exchange(audit_fails_, !status.ok())) return {};
  return status;
}

Status RunFiles::CreateFinalWeights(const std::function<Status(const std::string& path)>& create) {
  const std::string path = run_dir_ + "/final.safetensors";
  return room_.Write(path, [&] { return create(path); });
}

Instant RunFiles::JobTime() const { return std::chrono::steady_clock::now().time_since_epoch() - room_.waited(); }

}  // namespace capstan::server
