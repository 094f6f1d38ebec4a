#include "cli/launch/resume.h"

#include <poll.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <variant>

#include "cli/run/address.h"
#include "cli/run/find_run.h"
#include "common/base/process_address.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/schedule_section.h"
#include "common/config/job/snapshot_section.h"
#include "server/storage/coordinator_log.h"
#include "server/storage/file_coordinator_log.h"
#include "server/storage/manifests.h"

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

// How many times a port is tried, and the pause between two tries. A coordinator that was killed together with its
// launcher may still hold the port for a moment.
constexpr int kPortLooks = 40, kPortLookMs = 50;

Result<std::string> FindRunDirectory(const std::string& job_file, const std::vector<std::string>& overrides) {
  std::string name;
  if (!job_file.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(const JobConfig config, LoadJobConfig(job_file, overrides));
    name = config.name();
  }
  Result<std::string> found = NewestLaunchedRun(name);
  if (found.ok()) return found;
  return Invalid("--resume goes on with the newest run under runs/: " + found.status().message() + ", with --run-dir");
}

std::vector<std::string> DescribeGoingOn(const JobConfig& begun, const JobConfig& now) {
  std::vector<std::string> lines;
  for (const std::string& change : DescribeChanges(begun, now)) lines.push_back("from here on: " + change);
  const bool follows = now.schedule.kind != ScheduleKind::kConstant;
  if (follows && begun.job.steps != now.job.steps) {
    lines.emplace_back(
        "the schedule falls until the last step: with another number of steps it has other rates than the run had so "
        "far");
  }
  return lines;
}

template <class Record>
bool HasRecord(const std::string& run_dir) {
  const auto records = server::FileCoordinatorLog::Look(run_dir + "/snapshots/coordinator.log");
  const auto is_one = [](const server::LogRecord& record) { return std::holds_alternative<Record>(record); };
  return records.ok() && std::any_of(records->begin(), records->end(), is_one);
}

Status CheckSteps(const std::string& run_dir, const JobConfig& config) {
  const std::optional<std::uint64_t> version = NewestSnapshotOf(run_dir, config);
  if (!version || *version <= config.steps()) return {};
  return Invalid("job.steps = " + std::to_string(config.steps()) + ", and " + run_dir + " is at step " +
                 std::to_string(*version) + " already: set it to that or more");
}

bool WaitsForFree(const std::string& address) {
  for (int look = 0; look < kPortLooks; ++look) {
    if (IsFree(address)) return true;
    poll(nullptr, 0, kPortLookMs);
  }
  return false;
}

}  // namespace

// A resumed run uses the job file in its run directory unless another one is given. In any case the job keeps its
// number of slots.
Result<ResumedJob> LoadResumedJob(const std::string& job_file, const std::string& run_dir,
                                  std::vector<std::string> overrides) {
  ResumedJob job;
  job.run_dir = run_dir;
  if (run_dir.empty()) {
    CAPSTAN_ASSIGN_OR_RETURN(job.run_dir, FindRunDirectory(job_file, overrides));
    job.lines.push_back("going on with " + job.run_dir + ", the newest run under runs/");
  }
  const std::string own = job.run_dir + "/job.toml";
  if (std::error_code error; !fs::exists(job.run_dir, error)) {
    return Invalid("there is no run directory " + job.run_dir +
                   "; --resume alone goes on with the newest run under runs/");
  }
  if (std::error_code error; !fs::exists(own, error)) {
    return Invalid("the run directory " + job.run_dir + " holds no run that could be resumed");
  }
  CAPSTAN_ASSIGN_OR_RETURN(const JobConfig begun, LoadJobConfig(own));
  overrides.insert(overrides.begin(), "job.slots=" + std::to_string(begun.job.slots));
  // If the run required all its workers (min_workers = workers), it requires all of another number, too: 0 means all.
  if (begun.cluster.min_workers == begun.cluster.workers) overrides.insert(overrides.begin(), "cluster.min_workers=0");
  CAPSTAN_ASSIGN_OR_RETURN(job.config, LoadJobConfig(job_file.empty() ? own : job_file, overrides));
  const std::string difference = DescribeDifference(begun, job.config);
  if (!difference.empty()) {
    return Invalid("this job cannot be continued with other settings, " + difference +
                   "; leave them as they were, or begin a new run");
  }
  CAPSTAN_RETURN_IF_ERROR(CheckSteps(job.run_dir, job.config));
  for (std::string& line : DescribeGoingOn(begun, job.config)) job.lines.push_back(std::move(line));
  return job;
}

std::optional<std::uint64_t> StepsIfDone(const std::string& run_dir, const JobConfig& config) {
  const auto records = server::FileCoordinatorLog::Look(run_dir + "/snapshots/coordinator.log");
  if (!records.ok()) return std::nullopt;  // opening it reports the reason
  std::string job_file;
  bool done = false;
  for (const server::LogRecord& record : *records) {
    if (const auto* const job = std::get_if<server::JobRecord>(&record)) {
      job_file = job->job_file;
      done = false;
    }
    if (std::holds_alternative<server::DoneRecord>(record)) done = true;
  }
  const Result<JobConfig> logged = ParseJobConfig(job_file, "the job file in the log");
  if (!done || !logged.ok() || logged->steps() != config.steps()) return std::nullopt;
  return logged->steps();
}

std::optional<std::uint64_t> NewestSnapshotOf(const std::string& run_dir, const JobConfig& config) {
  const auto records = server::FileCoordinatorLog::Look(run_dir + "/snapshots/coordinator.log");
  if (!records.ok()) return std::nullopt;  // opening it reports the reason
  const auto manifests = server::ManifestsOf(*records, config.snapshot.keep);
  return manifests.empty() ? std::nullopt : std::optional(manifests.back().id.version.value);
}

bool HasBegun(const std::string& run_dir) { return HasRecord<server::JobRecord>(run_dir); }
bool HasSnapshot(const std::string& run_dir) { return HasRecord<server::ManifestRecord>(run_dir); }

ChosenAddress ChooseCoordinator(const std::string& wanted, const std::string& former) {
  if (IsLocalAddress(wanted)) return {wanted, ""};
  if (const std::string key(KeyInAddress(wanted)); !key.empty()) {
    ChosenAddress chosen = ChooseCoordinator(WithoutKey(wanted), former);
    chosen.address = WithKey(chosen.address, key);
    return chosen;
  }
  const std::string host = wanted.substr(0, wanted.rfind(':') + 1);
  if (!wanted.ends_with(":0") || PortOf(former) == 0) return {ChoosePort(wanted), ""};
  const std::string kept = host + std::to_string(PortOf(former));
  if (WaitsForFree(kept)) return {kept, ""};
  return {ChoosePort(wanted), "warning: another process listens at " + kept +
                                  " now, where the coordinator was: it takes another port, and programs that wait for "
                                  "it there are to be started again"};
}

}  // namespace capstan::cli
