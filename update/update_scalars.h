// MakeUpdateScalars: the factors of one update.
//
// Kind:   a pure function.
#pragma once

#include <algorithm>
#include <cstdint>

#include "common/base/aggregation.h"
#include "update/block_update.h"

namespace capstan {

// `updates`: how many updates came before, as a peer or a file says; `samples`: samples in the gradient, which was
// computed with `loss_scale`.
inline UpdateScalars MakeUpdateScalars(Aggregation aggregation, std::uint64_t updates, std::uint64_t samples,
                                       float loss_scale) {
  const double divisor = IsMean(aggregation) ? static_cast<double>(samples) : 1.0;
  UpdateScalars scalars;
  scalars.step = std::max<std::uint64_t>(updates + 1, 1);  // never 0, also where 2^64 - 1 updates are claimed
  scalars.mean_scale = static_cast<float>(1.0 / (divisor * static_cast<double>(loss_scale)));
  scalars.statistic_scale = static_cast<float>(1.0 / divisor);
  return scalars;
}

}  // namespace capstan
