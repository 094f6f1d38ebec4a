// Axpby: y = a x + b y.
//
// Shapes: x, y [count].
// Types:  float, double, Bf16, Half.
#pragma once

#include <cstdint>

#include "common/data/number16.h"
#include "kernels/base/context.h"

namespace capstan::kernels {

// With b = 0, y is written without being read.
template <class T>
void Axpby(CpuContext& context, std::int64_t count, Wide<T> a, const T* x, Wide<T> b, T* y);
template <class T>
void Axpby(CudaContext& context, std::int64_t count, Wide<T> a, const T* x, Wide<T> b, T* y);

}  // namespace capstan::kernels
