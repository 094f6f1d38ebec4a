// The part of CUDA's header of this name that capstan uses; see cuda_runtime.h.
#pragma once

#include "common/data/number16.h"
#include "tests/emulation/cuda/cuda_runtime.h"

// NOLINTBEGIN: the names are CUDA's.
struct __half {
  unsigned short bits;
};
inline __half __ushort_as_half(unsigned short bits) { return {bits}; }
inline unsigned short __half_as_ushort(__half x) { return x.bits; }
inline float __half2float(__half x) { return capstan::Widen(capstan::Half{x.bits}); }
inline __half __float2half_rn(float x) { return {capstan::Narrow<capstan::Half>(x).bits}; }
// NOLINTEND
