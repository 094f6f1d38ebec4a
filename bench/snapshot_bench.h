// PlanSnapshot: the cost of a snapshot: the time until it is durable, during training and on an idle machine, the
// slowdown of steps meanwhile, and memory.
//
// Kind:   a plan that forks processes, so measure it while this process has no other thread.
#pragma once

#include <cstddef>

#include "bench/plan.h"

namespace capstan::bench {

struct SnapshotOptions {
  std::size_t state_mib = 1024;  // weights and both moments
  int every_steps = 20;
  int snapshots = 2;  // in each round
  int rounds = 3;
};

// Plans, for each round, a job of mode sync in fp32 with AdamW, one shard and one worker, on the disk of the folder for
// temporary files.
Plan PlanSnapshot(const SnapshotOptions& options);

}  // namespace capstan::bench
