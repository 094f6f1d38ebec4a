// ExpOf, SigmoidOf: elementary functions in device code, as accurate as T needs.
//
// Types:  float: the functions of elementary.h, with the same bits as on a CPU. Bf16, Half: the device's own functions,
//         whose error is small next to the rounding of the result.
// Why:    kernels on 16-bit numbers would otherwise wait for polynomials instead of memory.
#pragma once

#include <cuda_runtime.h>

#include "common/data/number16.h"
#include "kernels/base/elementary.h"

namespace capstan::kernels {

template <class T>
__device__ __forceinline__ float ExpOf(float x) {
  if constexpr (kIs16Bit<T>) {
    return __expf(x);
  } else {
    return Exp(x);
  }
}

// Returns 1 / (1 + e^-x).
template <class T>
__device__ __forceinline__ float SigmoidOf(float x) {
  if constexpr (kIs16Bit<T>) {
    return __fdividef(1.0F, 1.0F + __expf(-x));
  } else {
    return Sigmoid(x);
  }
}

}  // namespace capstan::kernels
