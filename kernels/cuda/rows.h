// LoadSome, StoreSome, LoadFloats, StoreFloats, ForPacks, RowSum: access to rows that a warp or a block owns, and the
// division of a row among its threads.
//
// Types:  kThreads is 32 (a warp to a row) or the whole block; kPacked: rows are aligned and whole packs long.
// Parity: thread t of a row has its packs t, t + kThreads, ...; these are the same elements whether rows are
//         aligned or not. So a sum that each thread adds in ascending order, and RowSum over threads, depends only
//         on the row's length.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/numbers.h"
#include "kernels/cuda/reduce.h"

namespace capstan::kernels {

// Loads elements [at, at + Pack<T>::kCount) of a row of `count`; those beyond its end are 0.
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

// The number of elements of a row that each of its threads holds in registers, and how many packs these are.
inline constexpr int kHeldElements = 32;
template <class T>
inline constexpr int kHeldPacks = kHeldElements / Pack<T>::kCount;
// The longest row that a warp has. Longer rows get a whole block.
inline constexpr std::int64_t kWarpColumns = 32 * kHeldElements;

// Calls held(k, at) for the packs of the row that a thread holds, k < kHeldPacks<T> known at compile time; then
// rest(at) for its other packs, which a warp's row never has. `at` is the pack's first element.
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

// Returns the sum over the threads of a row to each of them.
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
