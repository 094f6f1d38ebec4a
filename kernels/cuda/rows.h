// LoadSome, StoreSome, LoadFloats, StoreFloats, ForPacks, RowSum, RowMax: access to a row that the threads of a warp or
// of a block share.
//
// Types:  kThreads is 32 (a warp has the row) or the block's size; kPacked: rows are aligned and whole packs long.
// Parity: thread t of a row has the row's packs t, t + kThreads, ...; these are the same elements whether rows are
//         aligned or not. So the order of a sum that each thread adds in ascending order, and then RowSum over threads,
//         depends only on kThreads and the row's length.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/numbers.h"
#include "kernels/cuda/reduce.h"

namespace capstan::kernels {

// Loads elements [at, at + Pack<T>::kCount) of a row of `count` elements; those beyond the row's end are 0.
template <class T, bool kPacked>
__device__ __forceinline__ Pack<T> LoadSome(const T* row, std::int64_t at, std::int64_t count) {
  if constexpr (kPacked) {
    return LoadPack(row + at);
  } else {
    Pack<T> pack{};
    for (int j = 0; j < Pack<T>::kCount; ++j) {
      if (at + j < count) pack.value[j] = row[at + j];
    }
    return pack;
  }
}

template <class T, bool kPacked>
__device__ __forceinline__ void StoreSome(const Pack<T>& pack, T* row, std::int64_t at, std::int64_t count) {
  if constexpr (kPacked) {
    StorePack(row + at, pack);
  } else {
    for (int j = 0; j < Pack<T>::kCount; ++j) {
      if (at + j < count) row[at + j] = pack.value[j];
    }
  }
}

// As many floats as a pack of T has numbers.
template <class T>
using Floats = float[Pack<T>::kCount];

template <class T, bool kPacked>
__device__ __forceinline__ void LoadFloats(const float* row, std::int64_t at, std::int64_t count, Floats<T>& to) {
#pragma unroll
  for (int part = 0; part < Pack<T>::kCount; part += 4) {
    const Pack<float> pack = LoadSome<float, kPacked>(row, at + part, count);
    for (int j = 0; j < 4; ++j) to[part + j] = pack.value[j];
  }
}

template <class T, bool kPacked>
__device__ __forceinline__ void StoreFloats(const Floats<T>& from, float* row, std::int64_t at, std::int64_t count) {
#pragma unroll
  for (int part = 0; part < Pack<T>::kCount; part += 4) {
    Pack<float> pack;
    for (int j = 0; j < 4; ++j) pack.value[j] = from[part + j];
    StoreSome<float, kPacked>(pack, row, at + part, count);
  }
}

// The most elements of a row that one thread holds in registers, and how many packs these are.
inline constexpr int kHeldElements = 32;
template <class T>
inline constexpr int kHeldPacks = kHeldElements / Pack<T>::kCount;
// The length of the longest row that is given to a warp. A longer row is given to a whole block.
inline constexpr std::int64_t kWarpColumns = 32 * kHeldElements;

// Calls held(k, at) for the packs that the thread holds in registers; k < kHeldPacks<T> is known at compile time. Then
// calls rest(at) for the thread's other packs, which only a block's row has. `at` is the pack's first element.
template <class T, int kThreads, class Held, class Rest>
__device__ __forceinline__ void ForPacks(std::int64_t columns, int thread, const Held& held, const Rest& rest) {
  constexpr int kCount = Pack<T>::kCount;
#pragma unroll
  for (int k = 0; k < kHeldPacks<T>; ++k) {
    const std::int64_t at = (k * kThreads + thread) * kCount;
    if (at < columns) held(k, at);
  }
  if constexpr (kThreads > 32) {
    const std::int64_t first = (kHeldPacks<T> * kThreads + thread) * kCount;
    for (std::int64_t at = first; at < columns; at += kThreads * kCount) rest(at);
  }
}

// Returns to each thread of a row the sum over these threads.
template <int kThreads, class Number>
__device__ __forceinline__ Number RowSum(Number x) {
  if constexpr (kThreads == 32) {
    return WarpSum(x);
  } else {
    return BlockSum<kThreads>(x);
  }
}

template <int kThreads>
__device__ __forceinline__ float RowMax(float x) {
  if constexpr (kThreads == 32) {
    return WarpMax(x);
  } else {
    return BlockMax<kThreads>(x);
  }
}

}  // namespace capstan::kernels
