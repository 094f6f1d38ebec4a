// MeasureScale: the cost of one message, beat or step of each core as jobs grow, and the exponent that it grows with.
//
// Kind:   runs for minutes on the caller's thread: real cores, no sockets, no threads; replies are encoded.
// Limits: about 1 GiB of memory at 4,096 workers and 1,000 shards.
// Why:    a cost that is hidden at ten shards decides at a thousand. The exponent shows a scan that came back at sizes
//         that a laptop measures.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/figure.h"
#include "common/base/status.h"

namespace capstan::bench {

// Each shard has kScaleBlocksPerShard blocks, so a job has 95,000 at 1,000 shards: 100 GB of weights.
inline constexpr std::uint32_t kScaleBlocksPerShard = 95;

struct ScaleSize {
  std::uint32_t workers = 0, shards = 0;
};

struct ScaleOptions {
  std::vector<ScaleSize> sizes = {{100, 10}, {1000, 100}, {4096, 1000}};
  double seconds = 0.05;  // that each figure is measured for, at least
  Parts parts;
};

// For each cost one figure a size, and its growth: the exponent of the number of workers or shards (the least squares
// of logarithms), next to the one that it has by design.
Result<std::vector<Figure>> MeasureScale(const ScaleOptions& options);

}  // namespace capstan::bench
