// PlanScale: what one message, beat or step costs a coordinator, shard or session as jobs grow, and the exponent of
// that growth.
//
// Kind:   a plan that runs for minutes on the caller's thread: the real classes, without sockets and threads.
// Limits: about 1 GiB of memory at 4,096 workers and 1,000 shards.
// Why:    a cost that is invisible at ten shards can dominate at a thousand. The exponent shows, at sizes that a laptop
//         can measure, whether some code has begun to scan all members or blocks for each message.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/plan.h"

namespace capstan::bench {

// Blocks of each shard. 1,000 shards have 95,000 blocks; in a real job, where a block is 1 MiB, that is 100 GB.
inline constexpr std::uint32_t kScaleBlocksPerShard = 95;

struct ScaleSize {
  std::uint32_t workers = 0, shards = 0;
};

struct ScaleOptions {
  std::vector<ScaleSize> sizes = {{100, 10}, {1000, 100}, {4096, 1000}};
  double seconds = 0.05;  // least time for each measurement
  int rounds = 3;
};

// Plans for each operation one row per size and, if there are several sizes, one for the growth: the exponent of the
// number of workers or shards, next to the exponent by design.
Plan PlanScale(const ScaleOptions& options);

}  // namespace capstan::bench
