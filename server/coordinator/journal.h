// Journal: what the log of a job says: its id and term, catalog, generations and snapshots.
//
// Kind:   owned by the Coordinator. After Open its state changes by log records and DropManifestsFrom.
// Fails:  Open: kRefused, if the job file cannot continue the job of the log. Open and Append: as
//         CoordinatorLog::Append.
// Why:    a record is on disk before a message that depends on it is sent. Replay and a running coordinator apply a
//         record by the same code, so a restarted coordinator has all that its predecessor logged.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/data/catalog.h"
#include "common/wire/messages/snapshot_id.h"
#include "server/coordinator/coordinator_options.h"
#include "server/storage/coordinator_log.h"
#include "update/verdict.h"

namespace capstan::server {

class Journal {
 public:
  // `options` and `log` outlive the journal.
  Journal(const CoordinatorOptions& options, CoordinatorLog* log) : options_(options), log_(log) {}

  // Reads the log and appends the next term, and before it the job file if its number of steps has changed.
  Status Open();
  // Writes the record and applies it. If that fails, the caller must fail the job: the record may be applied already.
  Status Append(LogRecord record);

  JobId job() const { return job_; }
  Term term() const { return term_; }

  // The newest generation; 0: none has begun.
  Generation generation() const { return recover_ ? recover_->generation : Generation{}; }
  // The generation in which the present timeline began.
  TimelineId timeline() const { return recover_ ? recover_->timeline : TimelineId{}; }
  bool has_begun() const { return recover_.has_value(); }
  // The record of how the newest generation begins. Requires has_begun().
  const RecoverRecord& recover() const { return *recover_; }
  // Whether the newest generation continues the timeline of the one before it. Requires has_begun().
  bool ContinuesTimeline() const { return FirstGeneration(recover_->timeline) < recover_->generation; }
  // The incarnations of the shards with which the newest generation runs; empty: it does not run yet.
  const std::optional<RunningRecord>& running() const { return running_; }
  bool concluded() const { return concluded_; }

  // The snapshots that exist, oldest first.
  const std::vector<ManifestRecord>& manifests() const { return manifests_; }
  // The newest snapshot that exists; its generation is 0 if there is none.
  SnapshotId newest_snapshot() const { return manifests_.empty() ? SnapshotId{} : manifests_.back().id; }
  // Whether a manifest names this part; other parts are of no use to a recovery.
  bool Names(const SnapshotPart& part) const;
  // Forgets the snapshots from `first` on, which cannot be used. Their records stay in the log, but a replay drops them
  // too once the next generation's record names an older snapshot.
  void DropManifestsFrom(SnapshotId first);

  // The catalog, its record, and its segments in order. All three are null until a worker has declared the job's
  // tensors.
  const Catalog* catalog() const { return catalog_ ? &catalog_->catalog : nullptr; }
  const CatalogRecord* catalog_record() const { return catalog_ ? &catalog_->record : nullptr; }
  const SegmentOrder* segment_order() const { return catalog_ ? &catalog_->order : nullptr; }
  // Whether version 0, which a worker uploads, is not on disk yet. Until then no step is decided.
  bool AwaitsInitialWeights() const { return catalog_ && catalog_->catalog.is_given() && manifests_.empty(); }

 private:
  struct JobCatalog {
    CatalogRecord record;
    Catalog catalog;
    SegmentOrder order;
  };

  void Apply(const JobRecord& record) { job_ = record.job; }
  void Apply(const CatalogRecord& record);
  void Apply(const TermRecord& record) { term_ = record.term; }
  void Apply(const RecoverRecord& record);
  void Apply(const RunningRecord& record) { running_ = record; }
  void Apply(const ManifestRecord& record);
  void Apply(const DoneRecord&) { concluded_ = true; }
  Status Replay();
  Status CheckCatalog(const LogRecord& record) const;
  Status CheckJobFile(const std::string& job_file);
  Status RenewParameters();
  StepParameters Renewed(StepParameters parameters, Version version) const;

  const CoordinatorOptions& options_;
  CoordinatorLog* const log_;

  JobId job_;
  Term term_;
  std::uint64_t steps_ = 0;  // number of steps in the log's job file
  std::optional<JobCatalog> catalog_;
  std::optional<RecoverRecord> recover_;
  std::optional<RunningRecord> running_;
  std::vector<ManifestRecord> manifests_;
  bool concluded_ = false;
};

}  // namespace capstan::server
