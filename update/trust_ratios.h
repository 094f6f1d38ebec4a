// TrustRatios: one factor of the learning rate per tensor, for optimizers that use one.
//
// Kind:   a pure function of the shards' reports.
// Parity: sums in catalog order, in double; a ratio is rounded to fp32 once, here, and every shard uses those bits.
// Why:    a tensor may be on several shards, and its ratio depends on the norms of the whole tensor. w = [3, 4] with
//         the gradient [0.6, 0.1] has the lars ratio 0.008215 (trust_coefficient 0.001, decay 0.0001); its two halves
//         would have 0.004998 and 0.039841.
//
// lars:   trust_coefficient * |w| / |g + decay * w|; 1 for a tensor of one dimension or none (biases, normalisation).
// lamb:   |w| / |r|, r being Adam's direction with decay * w added.
// g is the clipped gradient: with clipping, the norms come from an attempt that was prepared with the clip factor, and
// Adam's moments are those of clipped gradients. A ratio is 1 if a norm is 0 or not finite, or if the ratio overflows
// fp32 or rounds to 0.
#pragma once

#include <vector>

#include "common/config/job/forward.h"
#include "update/verdict.h"

namespace capstan {

// Returns one ratio per tensor of the catalog. `prepared`: one report per shard, as for Decide(); its sums of squares
// of weights and directions are used.
std::vector<float> TrustRatios(const OptimizerSection& optimizer, const Catalog& catalog, const SegmentOrder& order,
                               const std::vector<const Prepared*>& prepared);

}  // namespace capstan
