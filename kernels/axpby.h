// Axpby: y = a x + b y.
//
// Shapes: x, y [count].
// Types:  float and double.
#pragma once

#include <cstdint>

#include "kernels/context.h"

namespace capstan::kernels {

// With b = 0, y is written without being read.
template <class Real>
void Axpby(CpuContext& context, std::int64_t count, Real a, const Real* x, Real b, Real* y);

}  // namespace capstan::kernels
