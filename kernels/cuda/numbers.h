// ToFloat, Rounded, Pack: numbers in device code. Arithmetic is in float; memory is read 16 bytes at a time.
//
// Parity: Rounded as Narrow of number16.h, bit for bit, except for the bits of a NaN.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "common/data/number16.h"

namespace capstan::kernels {

__device__ __forceinline__ float ToFloat(float x) { return x; }
__device__ __forceinline__ float ToFloat(Bf16 x) { return __bfloat162float(__ushort_as_bfloat16(x.bits)); }
__device__ __forceinline__ float ToFloat(Half x) { return __half2float(__ushort_as_half(x.bits)); }

template <class T>
__device__ __forceinline__ T Rounded(float x) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
  } else if constexpr (std::is_same_v<T, Half>) {
    return {__half_as_ushort(__float2half_rn(x))};
  } else {
    return x;
  }
}

// 16 bytes of numbers, which a thread reads or writes in one access.
template <class T>
struct alignas(16) Pack {
  static constexpr int kCount = 16 / sizeof(T);
  T value[kCount];
};

template <class T>
__device__ __forceinline__ Pack<T> LoadPack(const T* from) {
  return __builtin_bit_cast(Pack<T>, *reinterpret_cast<const uint4*>(from));
}

template <class T>
__device__ __forceinline__ void StorePack(T* to, const Pack<T>& pack) {
  *reinterpret_cast<uint4*>(to) = __builtin_bit_cast(uint4, pack);
}

// Whether rows of `row_bytes` bytes, one after the other from each of the addresses on, can be read as packs.
template <class... Pointers>
bool ArePacked(std::int64_t row_bytes, const Pointers*... pointers) {
  return row_bytes % 16 == 0 && ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace capstan::kernels
