#include "server/coordinator/external_steps.h"

#include "server/coordinator/journal.h"

namespace capstan::server {

Step ExternalSteps::readable() const {
  if (parameters_.stop && AllPublished()) return step_;
  return Step{facts_.journal.newest_snapshot().version.value};
}

// An earlier coordinator may have decided the last step. A shard that has published it may lack the last version.
void ExternalSteps::Resume(Instant now, Outbox* out) {
  CommittedSteps::Resume(now, out);
  if (parameters_.stop && pending()) ForgetLastCommitted();
  parameters_.on_shards = true;
}

// The shards keep track of which version they have. For the rest of the coordinator a snapshot can be asked for in any
// step, as in sync.
Steps::Decision ExternalSteps::Decide(const Snapshots& snapshots, bool stopping, Instant now, Outbox* out) {
  Decision decision = CommittedSteps::Decide(snapshots, stopping, now, out);
  parameters_.on_shards = true;
  return decision;
}

// The program's state comes with the version that a worker uploads, so a Commit carries none.
void ExternalSteps::PlanNext(const Snapshots& snapshots, bool stopping, Instant now, StepParameters* next) const {
  CommittedSteps::PlanNext(snapshots, stopping, now, next);
  next->on_shards = false;
  next->program_state.clear();
}

}  // namespace capstan::server
