#include "cli/run/former_run.h"

#include <filesystem>
#include <variant>
#include <vector>

#include "cli/run/run_contents.h"
#include "common/config/job_config.h"
#include "server/storage/file_coordinator_log.h"

namespace capstan::cli {

namespace {

// Explains why a run that began with the settings `begun` cannot continue with `now`: some settings never change, and
// others change only with --resume. Empty: it can continue.
std::string Obstacle(const JobConfig& begun, const JobConfig& now, RunBegin begin) {
  const std::string difference = DescribeDifference(begun, now);
  if (!difference.empty()) return difference + "; to go on with that run, give it the settings that it had";
  const std::vector<std::string> changes = DescribeChanges(begun, now);
  if (begin != RunBegin::kNew || changes.empty()) return "";
  return changes.front() +
         "; to go on with that run, give it the settings that it had, or --resume to go on with these";
}

}  // namespace

Result<FormerRun> FindFormerRun(const std::string& run_dir, const JobConfig& config, RunBegin begin) {
  const std::string log = run_dir + "/snapshots/coordinator.log";
  const bool holds_run = HoldsRun(run_dir);
  const FormerRun damaged = holds_run ? FormerRun::kUnfinished : FormerRun::kNone;  // opening it reports the damage
  if (std::error_code error; !std::filesystem::exists(log, error)) return damaged;
  const Result<std::vector<server::LogRecord>> records = server::FileCoordinatorLog::Look(log);
  if (!records.ok()) return damaged;
  const server::JobRecord* job = nullptr;
  bool finished = false;
  for (const server::LogRecord& record : *records) {
    if (const auto* found = std::get_if<server::JobRecord>(&record)) job = found;
    finished = finished || std::holds_alternative<server::DoneRecord>(record);
  }
  if (job == nullptr) return damaged;
  const Result<JobConfig> begun = ParseJobConfig(job->job_file, "the job file in the log");
  const std::string obstacle = begun.ok() ? Obstacle(*begun, config, begin) : begun.status().message();
  if (!obstacle.empty() && !holds_run) return FormerRun::kNone;
  if (!obstacle.empty()) {
    return Invalid("the run directory " + run_dir + " holds a run with other settings, " + obstacle + ". " +
                   WordsForAnotherRun(run_dir));
  }
  return finished ? FormerRun::kFinished : FormerRun::kUnfinished;
}

void ForgetFailedStart(const std::string& run_dir) {
  const std::string log = run_dir + "/snapshots/coordinator.log";
  const Result<std::vector<server::LogRecord>> records = server::FileCoordinatorLog::Look(log);
  if (!records.ok() || HoldsRun(run_dir)) return;
  for (const server::LogRecord& record : *records) {
    if (std::holds_alternative<server::RecoverRecord>(record)) return;
  }
  std::error_code ignored;
  std::filesystem::remove(log, ignored);
}

std::string WordsForAnotherRun(const std::string& run_dir) {
  return "For another run, give a new --run-dir here and to the servers, or move the old ones away (here: mv " +
         run_dir + " " + run_dir + "-old)";
}

}  // namespace capstan::cli
