// Dropout: sets each element to 0 with a given probability, and divides the elements that stay by the probability of
// staying.
//
// Shapes: x, any array; in place. The gradient is the same call on dy.
// Types:  float, double, Bf16, Half.
// Parity: whether element i is kept depends only on (key, i), so the mask is recomputed instead of stored.
#pragma once

#include <cstdint>

#include "common/data/number16.h"
#include "kernels/base/context.h"

namespace capstan::kernels {

struct DropoutMask {
  std::uint64_t key = 0;
  double probability = 0;  // probability of 0, in [0, 1); with 0 the array is not touched
};

template <class T>
void Dropout(CpuContext& context, const DropoutMask& mask, std::int64_t count, T* x);
template <class T>
void Dropout(CudaContext& context, const DropoutMask& mask, std::int64_t count, T* x);

// Applies dropout to elements [first, first + count) of an array, on the calling thread. `x` points to element `first`;
// `first` is a multiple of kPhiloxGroup.
template <class T>
void DropoutOnThisThread(const DropoutMask& mask, std::uint64_t first, std::int64_t count, T* x);

}  // namespace capstan::kernels
