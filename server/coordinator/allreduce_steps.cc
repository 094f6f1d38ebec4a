#include "server/coordinator/allreduce_steps.h"

#include <algorithm>

#include "common/config/job/snapshot_section.h"
#include "common/config/job_config.h"
#include "server/coordinator/coordinator_options.h"
#include "server/coordinator/journal.h"
#include "server/coordinator/snapshots.h"

namespace capstan::server {

StepParameters AllReduceSteps::ParametersFrom(const RecoverRecord& record, const Snapshots& snapshots, bool stopping,
                                              Instant now) const {
  StepParameters parameters = record.parameters;
  const Version version = record.snapshot.version;
  parameters.upload_next =
      IsUploadDue(Step{version.value}, version, snapshots, snapshots.newest_began(), stopping, now);
  return parameters;
}

// If only the group has changed, begins from the step that the timeline has reached, because every shard has that step.
void AllReduceSteps::Begin() {
  const Step reached = StepOfShards(facts_.journal.recover());
  CommittedSteps::Begin();
  if (facts_.journal.ContinuesTimeline()) {
    step_ = reached;
    NotePublished(step_);
  }
  if (parameters_.on_shards) uploaded_ = step_;
}

void AllReduceSteps::Resume(Instant now, Outbox* out) {
  CommittedSteps::Resume(now, out);
  const SnapshotId newest = std::max(facts_.journal.recover().snapshot, facts_.journal.newest_snapshot());
  uploaded_ = parameters_.on_shards ? step_ : Step{newest.version.value};
}

Steps::Decision AllReduceSteps::Decide(const Snapshots& snapshots, bool stopping, Instant now, Outbox* out) {
  Decision decision = CommittedSteps::Decide(snapshots, stopping, now, out);
  if (!decision.records.empty() && parameters_.on_shards) uploaded_ = step_;
  return decision;
}

Generation AllReduceSteps::SnapshotsSince() const { return FirstGeneration(facts_.journal.timeline()); }

void AllReduceSteps::PlanNext(const Snapshots& snapshots, bool stopping, Instant now, StepParameters* next) const {
  const Version existing = facts_.journal.recover().snapshot.version;
  next->on_shards = parameters_.upload_next;
  if (next->stop) return;
  next->snapshot = parameters_.upload_next && !snapshots.pending() && facts_.options.config.snapshot.enabled();
  next->upload_next =
      IsUploadDue(step_.Next(), existing, snapshots, next->snapshot ? now : snapshots.newest_began(), stopping, now);
}

bool AllReduceSteps::IsUploadDue(Step step, Version existing, const Snapshots& snapshots, Instant newest_began,
                                 bool stopping, Instant now) const {
  return step.Next().value >= facts_.options.config.steps() || stopping ||
         snapshots.IsDueAt(step.Next(), existing, newest_began, now);
}

}  // namespace capstan::server
