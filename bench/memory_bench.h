// MeasureMemory: resident memory of a shard and of a worker, in bytes per parameter, next to the count by design.
//
// Kind:   forks processes, so call it while this one has no other thread.
// Limits: needs about 50 bytes of memory per parameter.
// Why:    the count by design includes only the large arrays. Resident memory also shows frames in flight, pools larger
//         than their use, and memory that the allocator retains.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/figure.h"
#include "common/base/status.h"

namespace capstan::bench {

struct MemoryOptions {
  std::size_t model_mib = 256;
  int steps = 5;
};

// Measures a job of mode sync in fp32 with AdamW, one shard and one worker.
Result<std::vector<Figure>> MeasureMemory(const MemoryOptions& options);

}  // namespace capstan::bench
