// MakeUpdateScalars: the factors of one update.
//
// Kind:   a pure function.
#pragma once

#include <cstdint>

#include "update/block_update.h"

namespace capstan::server {

// `updates`: how many updates came before; `samples`: samples in the gradient, which was computed with `loss_scale`.
inline UpdateScalars MakeUpdateScalars(std::uint64_t updates, std::uint64_t samples, float loss_scale) {
  UpdateScalars scalars;
  scalars.step = updates + 1;
  scalars.mean_scale = static_cast<float>(1.0 / (static_cast<double>(samples) * static_cast<double>(loss_scale)));
  scalars.statistic_scale = static_cast<float>(1.0 / static_cast<double>(samples));
  return scalars;
}

}  // namespace capstan::server
