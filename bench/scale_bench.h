// MeasureScale: the cost of one message, beat or step of each core as jobs grow, and the exponent of its growth.
//
// Kind:   runs for minutes on the caller's thread: real cores, no sockets, no threads; replies are encoded.
// Limits: about 1 GiB of memory at 4,096 workers and 1,000 shards.
// Why:    a cost that is invisible at ten shards can dominate at a thousand. The exponent shows, at sizes that a laptop
//         can measure, whether a core has begun to scan all members or blocks for each message.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/figure.h"
#include "common/base/status.h"

namespace capstan::bench {

// Each shard has kScaleBlocksPerShard blocks, so 1,000 shards have 95,000 blocks: 100 GB of weights.
inline constexpr std::uint32_t kScaleBlocksPerShard = 95;

struct ScaleSize {
  std::uint32_t workers = 0, shards = 0;
};

struct ScaleOptions {
  std::vector<ScaleSize> sizes = {{100, 10}, {1000, 100}, {4096, 1000}};
  double seconds = 0.05;  // least time for each figure
  Parts parts;
};

// Returns, for each cost, one figure per size and one for its growth: the exponent in the number of workers or shards
// (least squares of logarithms), next to the exponent by design.
Result<std::vector<Figure>> MeasureScale(const ScaleOptions& options);

}  // namespace capstan::bench
