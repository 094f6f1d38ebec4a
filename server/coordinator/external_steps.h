// ExternalSteps: committed steps of a job whose optimizer stays in the program.
//
// Kind:   owned by the Coordinator; a value.
// Why:    a step makes the mean gradient, and the weights are on the workers. A version whose step has
//         StepParameters::snapshot or `stop` is uploaded by one worker (VersionKeeper). Until then the shards do not
//         report that step, and do not answer the Commit of the last one. So here a version counts as published once
//         the shards have what has to be kept of it.
#pragma once

#include "server/coordinator/committed_steps.h"

namespace capstan::server {

class ExternalSteps final : public CommittedSteps {
 public:
  using CommittedSteps::CommittedSteps;

  Step readable() const override;
  void Resume(Instant now, Outbox* out) override;
  Decision Decide(const Snapshots& snapshots, bool stopping, Instant now, Outbox* out) override;

 private:
  void PlanNext(const Snapshots& snapshots, bool stopping, Instant now, StepParameters* next) const override;
};

}  // namespace capstan::server
