// WarpSum, BlockSum, WarpMax, BlockMax: sums and maxima over the threads of a warp or block, in a fixed order.
#pragma once

#include <cuda_runtime.h>

namespace capstan::kernels {

inline constexpr unsigned kWholeWarp = 0xFFFFFFFF;

// Returns the sum over a warp to every thread of the warp: adds lanes that are 16 apart, then 8, 4, 2, 1.
template <class Number>
__device__ __forceinline__ Number WarpSum(Number x) {
  for (int with = 16; with > 0; with /= 2) x += __shfl_xor_sync(kWholeWarp, x, with);
  return x;
}

__device__ __forceinline__ float WarpMax(float x) {
  for (int with = 16; with > 0; with /= 2) x = fmaxf(x, __shfl_xor_sync(kWholeWarp, x, with));
  return x;
}

// Returns the sum over a block to every thread of the block. The block has kThreads threads in one dimension, and all
// of them must call this function.
template <int kThreads, class Number>
__device__ __forceinline__ Number BlockSum(Number x) {
  static_assert(kThreads % 32 == 0 && kThreads <= 1024);
  __shared__ Number of_warp[kThreads / 32];
  x = WarpSum(x);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
  __syncthreads();
  Number sum = of_warp[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) sum += of_warp[warp];
  __syncthreads();  // the next call writes of_warp again
  return sum;
}

template <int kThreads>
__device__ __forceinline__ float BlockMax(float x) {
  static_assert(kThreads % 32 == 0 && kThreads <= 1024);
  __shared__ float of_warp[kThreads / 32];
  x = WarpMax(x);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
  __syncthreads();
  float largest = of_warp[0];
  for (int warp = 1; warp < kThreads / 32; ++warp) largest = fmaxf(largest, of_warp[warp]);
  __syncthreads();
  return largest;
}

}  // namespace capstan::kernels
