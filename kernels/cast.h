// Cast: an array of numbers as another type of number.
//
// Shapes: from, to [count], in different memory.
// Types:  float to Bf16 or Half, and back.
// Parity: as Narrow and Widen of number16.h, on a device too: the same bits, but of a NaN only that it is one.
// Why:    a gradient is narrowed before it travels, and what arrives is widened where it is used.
#pragma once

#include <cstdint>

#include "common/data/number16.h"
#include "kernels/base/context.h"

namespace capstan::kernels {

template <class From, class To>
void Cast(CpuContext& context, std::int64_t count, const From* from, To* to);
template <class From, class To>
void Cast(CudaContext& context, std::int64_t count, const From* from, To* to);

}  // namespace capstan::kernels
