// TrustRatios: one factor of the rate for each tensor, of the optimizers that take one.
//
// Kind:   a pure function of what the shards report.
// Parity: sums in catalog order, in double; a ratio is rounded to fp32 once, here, and every shard uses those bits.
// Why:    a tensor may lie on several shards, and its ratio follows from the norms of all of it: w = [3, 4] with the
//         gradient [0.6, 0.1] has the ratio 0.008215 by lars; cut in two it would have 0.004998 and 0.039841.
//
// lars:   trust_coefficient * |w| / |g + decay * w|; 1 for a tensor of one dimension (biases, normalisation).
// lamb:   |w| / |r|, r being Adam's direction with the decay added.
// g is the clipped gradient: with clipping the ratios are taken from an attempt that was prepared with its factor, and
// moments are those of clipped gradients. A ratio is 1 where a norm is 0 or either is not finite, and where it has no
// fp32 value.
#pragma once

#include <vector>

#include "common/config/job/forward.h"
#include "update/verdict.h"

namespace capstan {

// By tensor of the catalog. `prepared`: as for Decide(), with reports of the weights and directions.
std::vector<float> TrustRatios(const OptimizerSection& optimizer, const Catalog& catalog, const SegmentOrder& order,
                               const std::vector<const Prepared*>& prepared);

}  // namespace capstan
