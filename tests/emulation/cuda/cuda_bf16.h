// The part of CUDA's header of this name that capstan uses; see cuda_runtime.h.
#pragma once

#include "common/data/number16.h"
#include "tests/emulation/cuda/cuda_runtime.h"

// NOLINTBEGIN: the names are CUDA's.
struct __nv_bfloat16 {
  unsigned short bits;
};
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return {bits}; }
inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
inline float __bfloat162float(__nv_bfloat16 x) { return capstan::Widen(capstan::Bf16{x.bits}); }
inline __nv_bfloat16 __float2bfloat16_rn(float x) { return {capstan::Narrow<capstan::Bf16>(x).bits}; }
// NOLINTEND
