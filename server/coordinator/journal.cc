#include "server/coordinator/journal.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "common/config/job/snapshot_section.h"
#include "common/config/job_config.h"
#include "server/storage/manifests.h"

namespace capstan::server {

Status Journal::Open() {
  Status status = Replay();
  if (status.ok() && steps_ != options_.config.steps()) {
    status = Append(JobRecord{job_.IsNull() ? options_.job : job_, options_.job_file});
  }
  Status written = Append(TermRecord{term_.Next()});
  return written.ok() ? status : written;
}

Status Journal::Append(LogRecord record) {
  const auto apply = [this](const auto& body) { Apply(body); };
  // A snapshot exists, and a generation runs, only once the log says so. Other records apply before they are on disk.
  const bool is_effect =
      std::holds_alternative<ManifestRecord>(record) || std::holds_alternative<RunningRecord>(record);
  if (!is_effect) std::visit(apply, record);
  Status status = log_->Append(record);
  if (!status.ok()) return {status.code(), "the coordinator's log cannot be written: " + status.message()};
  if (is_effect) std::visit(apply, record);
  return {};
}

Status Journal::Replay() {
  Status refused;
  for (const LogRecord& record : log_->records()) {
    CAPSTAN_RETURN_IF_ERROR(CheckCatalog(record));
    std::visit([this](const auto& body) { Apply(body); }, record);
    const auto* const job = std::get_if<JobRecord>(&record);
    if (job == nullptr) continue;
    concluded_ = false;  // a job file after a DoneRecord continues the finished job
    if (Status status = CheckJobFile(job->job_file); !status.ok()) refused = std::move(status);
  }
  manifests_ = ManifestsOf(log_->records(), options_.config.snapshot.keep);
  if (Status status = RenewParameters(); !status.ok()) refused = std::move(status);
  if (options_.config.steps() > steps_) concluded_ = false;
  return refused;
}

// A seal does not prove that a coordinator wrote the log.
Status Journal::CheckCatalog(const LogRecord& record) const {
  const auto* const catalog = std::get_if<CatalogRecord>(&record);
  if (catalog == nullptr) return {};
  const Status status = Catalog::Create(catalog->tensors, options_.block_elements).status();
  if (status.ok()) return {};
  return Corrupt("the coordinator's log names tensors that no job has: " + status.message() +
                 "; put back a copy of it, or begin a new run");
}

Status Journal::CheckJobFile(const std::string& job_file) {
  const Result<JobConfig> begun = ParseJobConfig(job_file, "the job file in the log");
  steps_ = begun.ok() ? begun->steps() : 0;
  if (!begun.ok()) return begun.status();
  const std::string difference = DescribeDifference(*begun, options_.config);
  if (difference.empty()) return {};
  return Refused("this job cannot be continued with other settings, " + difference +
                 "; take the job file of the run directory, or begin a new run");
}

// Computes the step parameters of the log's records again: the present job file may have other learning rates, or
// another number of steps, than the one that they were computed from.
Status Journal::RenewParameters() {
  for (ManifestRecord& manifest : manifests_) manifest.parameters = Renewed(manifest.parameters, manifest.id.version);
  if (recover_ && !ContinuesTimeline()) {
    recover_->parameters = Renewed(recover_->parameters, recover_->snapshot.version);
  }
  const std::uint64_t done = newest_snapshot().version.value;
  if (done <= options_.config.steps()) return {};
  return Refused("job.steps = " + std::to_string(options_.config.steps()) +
                 ", and the run's newest snapshot is of version " + std::to_string(done) +
                 " already: set it to that or more, or begin a new run");
}

StepParameters Journal::Renewed(StepParameters parameters, Version version) const {
  const StepParameters now = ParametersOf(options_.config, Step{version.value}, parameters.updates);
  parameters.learning_rate = now.learning_rate;
  parameters.stop = now.stop;
  return parameters;
}

void Journal::Apply(const CatalogRecord& record) {
  Result<Catalog> catalog = Catalog::Create(record.tensors, options_.block_elements);
  CAPSTAN_CHECK(catalog.ok());  // it was checked before it was logged, or by Replay
  SegmentOrder order(*catalog, options_.config.shard_count());
  catalog_.emplace(JobCatalog{record, std::move(catalog).value(), std::move(order)});
}

void Journal::Apply(const RecoverRecord& record) {
  recover_ = record;
  running_.reset();
}

void Journal::Apply(const ManifestRecord& record) {
  manifests_.push_back(record);
  DropOldManifests(options_.config.snapshot.keep, &manifests_);
}

bool Journal::Names(const SnapshotPart& part) const {
  return std::any_of(manifests_.begin(), manifests_.end(), [&](const ManifestRecord& manifest) {
    return manifest.id == part.id && part.part < manifest.digests.size() && manifest.digests[part.part] == part.digest;
  });
}

void Journal::DropManifestsFrom(SnapshotId first) {
  while (!manifests_.empty() && manifests_.back().id >= first) manifests_.pop_back();
}

}  // namespace capstan::server
