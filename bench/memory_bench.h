// PlanMemory: resident memory of a shard and of a worker, in bytes per parameter, next to the count by design.
//
// Kind:   a plan that forks processes, so measure it while this one has no other thread.
// Limits: needs about 50 bytes of memory per parameter.
// Why:    the count by design includes only the large arrays. Resident memory also shows frames in flight, pools larger
//         than their use, and memory that the allocator retains.
#pragma once

#include <cstddef>

#include "bench/plan.h"

namespace capstan::bench {

struct MemoryOptions {
  std::size_t model_mib = 256;
  int steps = 5;
  int rounds = 5;
};

// Plans a job of mode sync in fp32 with AdamW, one shard and one worker, in each round.
Plan PlanMemory(const MemoryOptions& options);

}  // namespace capstan::bench
