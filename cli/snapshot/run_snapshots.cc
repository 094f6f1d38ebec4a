#include "cli/snapshot/run_snapshots.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "common/config/job/snapshot_section.h"
#include "common/config/job_config.h"
#include "server/storage/file_coordinator_log.h"
#include "server/storage/manifests.h"

namespace capstan::cli {

namespace {

namespace fs = std::filesystem;

Status CheckIsRun(const std::string& run_dir) {
  std::error_code error;
  if (!fs::is_directory(run_dir, error)) return Invalid("there is no run directory " + run_dir);
  if (fs::exists(LogPath(run_dir), error)) return {};
  return Invalid(run_dir + " is no run directory of a job that keeps snapshots: it has no " + LogPath("") +
                 "; give the --run-dir of the job's coordinator");
}

template <class Record>
const Record* LastOf(const std::vector<server::LogRecord>& records) {
  const Record* last = nullptr;
  for (const server::LogRecord& record : records) {
    if (const auto* const found = std::get_if<Record>(&record)) last = found;
  }
  return last;
}

// Returns how many snapshots the run retains now. The number does not affect the weights, so a continued job may have
// another one than it began with.
std::uint32_t KeepOf(const RunSnapshots& run) {
  const Result<JobConfig> in_force = LoadJobConfig(run.run_dir + "/job.toml");
  return in_force.ok() ? in_force->snapshot.keep : run.config.snapshot.keep;
}

}  // namespace

std::string SnapshotFolder(const std::string& run_dir) { return run_dir + "/snapshots"; }

std::string LogPath(const std::string& run_dir) { return run_dir + "/snapshots/coordinator.log"; }

Result<RunSnapshots> ReadRunSnapshots(const std::string& run_dir) {
  CAPSTAN_RETURN_IF_ERROR(CheckIsRun(run_dir));
  RunSnapshots run;
  run.run_dir = run_dir;
  CAPSTAN_ASSIGN_OR_RETURN(run.records, server::FileCoordinatorLog::Look(LogPath(run_dir)));
  const auto* const job = LastOf<server::JobRecord>(run.records);
  if (job == nullptr) return Invalid(LogPath(run_dir) + ": no job has begun here");
  run.job = job->job;
  CAPSTAN_ASSIGN_OR_RETURN(run.config, ParseJobConfig(job->job_file, "the job file in " + LogPath(run_dir)));
  run.keep = KeepOf(run);
  if (const auto* const record = LastOf<server::CatalogRecord>(run.records)) {
    CAPSTAN_ASSIGN_OR_RETURN(run.catalog, Catalog::Create(record->tensors));
  }
  run.manifests = server::ManifestsOf(run.records, run.keep);
  run.parts = std::make_unique<server::RocksSnapshotReader>(SnapshotFolder(run_dir));
  return run;
}

Result<const server::ManifestRecord*> FindSnapshot(const RunSnapshots& run, std::optional<std::uint64_t> step) {
  if (run.manifests.empty()) return Refused("there is no snapshot in " + run.run_dir + " yet");
  if (!step) return &run.manifests.back();
  std::string steps;
  for (const server::ManifestRecord& manifest : run.manifests) {
    if (manifest.id.version.value == *step) return &manifest;
    steps += (steps.empty() ? "" : ", ") + std::to_string(manifest.id.version.value);
  }
  return Invalid("there is no snapshot of step " + std::to_string(*step) + " in " + run.run_dir +
                 "; there are those of " + steps);
}

bool StillExists(const RunSnapshots& run, SnapshotId id) {
  const Result<std::vector<server::LogRecord>> records = server::FileCoordinatorLog::Look(LogPath(run.run_dir));
  if (!records.ok()) return false;
  const std::vector<server::ManifestRecord> manifests = server::ManifestsOf(*records, run.keep);
  return std::any_of(manifests.begin(), manifests.end(),
                     [id](const server::ManifestRecord& manifest) { return manifest.id == id; });
}

}  // namespace capstan::cli
