// AllReduceSteps: committed steps whose updates the workers make (mode allreduce).
//
// Kind:   owned by the Coordinator; a value.
// Why:    the weights are on the workers. They upload a version to the shards only where a snapshot, a stop or the end
//         of the job needs it. A step's parameters tell the workers to upload the version that the step makes. The next
//         step's parameters tell the shards to take the snapshot.
#pragma once

#include "server/coordinator/committed_steps.h"

namespace capstan::server {

class AllReduceSteps : public CommittedSteps {
 public:
  using CommittedSteps::CommittedSteps;

  Step readable() const override { return uploaded_; }
  StepParameters ParametersFrom(const RecoverRecord& record, const Snapshots& snapshots, bool stopping,
                                Instant now) const override;
  void Begin() override;
  void Resume(Instant now, Outbox* out) override;
  Decision Decide(const Snapshots& snapshots, bool stopping, Instant now, Outbox* out) override;
  // Returns the generation in which the timeline began: a version number means the same weights throughout a timeline,
  // so a snapshot of that version is the same whichever group the shards had when they were asked for it.
  Generation SnapshotsSince() const override;
  bool AllowsBackups() const override { return false; }

 private:
  void PlanNext(const Snapshots& snapshots, bool stopping, Instant now, StepParameters* next) const override;
  // Whether workers upload the version that `step` makes. `existing`: the version of the snapshot in the generation's
  // RecoverRecord; `newest_began`: when the newest snapshot began, including one that the caller begins now.
  bool IsUploadDue(Step step, Version existing, const Snapshots& snapshots, Instant newest_began, bool stopping,
                   Instant now) const;

  Step uploaded_;  // the newest version on the shards
};

}  // namespace capstan::server
