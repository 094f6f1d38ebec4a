#include "tests/server/shard/shard_harness.h"

#include "common/wire/messages/commit.h"

namespace capstan::server {

Commit ShardHarness::MakeCommit(std::uint64_t step, std::uint32_t attempt, StepAction action) const {
  Commit commit{Term{1}, generation, Step{step}, attempt, action, {}};
  commit.next.learning_rate = 1.0F;
  commit.next.updates = step + 1;
  return commit;
}

void ShardHarness::Commits(std::uint64_t step, std::uint32_t attempt, StepAction action) {
  FromCoordinator(MakeCommit(step, attempt, action));
}

Commit ShardHarness::MakeSnapshotCommit(std::uint64_t step) const {
  Commit commit = MakeCommit(step);
  commit.next.snapshot = true;
  return commit;
}

}  // namespace capstan::server
