// AddPartialSums: the last step of a sum over rows. For each column, the sums over chunks of rows are added.
//
// Shapes: partial [chunks, arrays, columns]; out[i] [columns], i < arrays.
// Parity: chunks c, c + 16, c + 32, ... ascending, for each c below 16; then those sums in order.
#pragma once

#include <cstdint>

#include "kernels/base/context.h"

namespace capstan::kernels {

struct PartialSums {
  const float* partial = nullptr;
  std::int64_t chunks = 0, columns = 0;
  int arrays = 1;  // 1 or 2
  float beta = 0;  // out = beta * old + sum; with 0, out is not read
  float* out[2] = {};
};

void AddPartialSums(CudaContext& context, const PartialSums& sums);

}  // namespace capstan::kernels
