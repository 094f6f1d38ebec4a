// MeasureSnapshot: what a snapshot costs: the time until it is durable, the steps that go on meanwhile, and memory.
//
// Kind:   a function; starts processes, so the caller has no threads.
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

// fp32, AdamW, sync; one shard, one worker; the temporary folder's disk.
Result<std::vector<Figure>> MeasureSnapshot(const SnapshotOptions& options);

}  // namespace capstan::bench
