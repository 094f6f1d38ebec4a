#include "tests/server/shard/shard_bench.h"

#include "common/wire/messages/commit.h"

namespace capstan::server {

Commit ShardBench::MakeCommit(std::uint64_t step, std::uint32_t attempt, StepAction action) const {
  Commit commit{Term{1}, generation, Step{step}, attempt, action, {}};
  commit.next.learning_rate = 1.0F;
  commit.next.updates = step + 1;
  return commit;
}

void ShardBench::Commits(std::uint64_t step, std::uint32_t attempt, StepAction action) {
  FromCoordinator(MakeCommit(step, attempt, action));
}

Commit ShardBench::MakeSnapshotCommit(std::uint64_t step) const {
  Commit commit = MakeCommit(step);
  commit.next.snapshot = true;
  return commit;
}

}  // namespace capstan::server
