// Cast: converts an array of numbers to another type.
//
// Shapes: from, to [count], in different memory.
// Types:  float to Bf16 or Half, and back.
// Parity: as Narrow and Widen of number16.h, on a device too: the same bits, except that a NaN may become another NaN.
// Why:    gradients are narrowed before they are sent; received numbers are widened where they are used.
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
