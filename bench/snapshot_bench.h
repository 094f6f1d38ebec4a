// MeasureSnapshot: the cost of a snapshot: the time until it is durable, the slowdown of steps meanwhile, and memory.
//
// Kind:   a function; it forks processes, so the caller must have no threads.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/figure.h"
#include "common/base/status.h"

namespace capstan::bench {

struct SnapshotOptions {
  std::size_t state_mib = 1024;  // weights and both moments
  int every_steps = 20;
  int snapshots = 3;
};

// Measures a job of mode sync in fp32 with AdamW, one shard and one worker, on the disk of the folder for temporary
// files.
Result<std::vector<Figure>> MeasureSnapshot(const SnapshotOptions& options);

}  // namespace capstan::bench
