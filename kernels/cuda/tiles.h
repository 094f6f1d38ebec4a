// WarpTile, Left, AddProduct: a warp's products of tiles of 16 x 16 numbers, on tensor cores for Bf16 and Half, with
// fmaf for float.
//
// Types:  factors lie in shared memory as Stored<T>; sums are float.
// Limits: factors start at multiples of 32 bytes, and their strides are multiples of 16 bytes. All threads of a warp
//         take part.
// Why:    CUDA does not specify which thread holds which element of a sum. WarpPlaces finds out on the device, so that
//         operations on single elements (masks, softmax, dropout) need not go through memory.
#pragma once

#include <mma.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/numbers.h"

namespace capstan::kernels {

inline constexpr int kTileSide = 16;
inline constexpr int kTileElements = 8;  // of a sum, per thread

template <class T>
struct StoredAs {
  using Type = T;
};
template <>
struct StoredAs<Bf16> {
  using Type = __nv_bfloat16;
};
template <>
struct StoredAs<Half> {
  using Type = __half;
};
template <class T>
using Stored = typename StoredAs<T>::Type;

__device__ __forceinline__ float ToStored(float x) { return x; }
__device__ __forceinline__ __nv_bfloat16 ToStored(Bf16 x) { return __ushort_as_bfloat16(x.bits); }
__device__ __forceinline__ __half ToStored(Half x) { return __ushort_as_half(x.bits); }
__device__ __forceinline__ float FromStored(float x) { return x; }
__device__ __forceinline__ Bf16 FromStored(__nv_bfloat16 x) { return {__bfloat16_as_ushort(x)}; }
__device__ __forceinline__ Half FromStored(__half x) { return {__half_as_ushort(x)}; }

enum class Order { kRows, kColumns };  // layout of the right factor in memory

template <class T>
struct WarpTile {
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, kTileSide, kTileSide, kTileSide, float> sum;
  static_assert(decltype(sum)::num_elements == kTileElements);

  __device__ __forceinline__ float& operator[](int i) { return sum.x[i]; }
  __device__ __forceinline__ void Clear() { nvcuda::wmma::fill_fragment(sum, 0.0F); }
};
template <>
struct WarpTile<float> {
  float sum[kTileElements];

  __device__ __forceinline__ float& operator[](int i) { return sum[i]; }
  __device__ __forceinline__ void Clear() {
    for (float& x : sum) x = 0;
  }
};

// The left factor of a product: in registers; for float only its address.
template <class T>
struct Left {
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, kTileSide, kTileSide, kTileSide, Stored<T>, nvcuda::wmma::row_major>
      factor;

  __device__ __forceinline__ void Load(const Stored<T>* from, unsigned stride) {
    nvcuda::wmma::load_matrix_sync(factor, from, stride);
  }
};
template <>
struct Left<float> {
  const float* from;
  unsigned stride;

  __device__ __forceinline__ void Load(const float* in_from, unsigned in_stride) {
    from = in_from;
    stride = in_stride;
  }
};

// Computes sum += left * right.
template <Order kOrder, class T>
__device__ __forceinline__ void AddProduct(WarpTile<T>& tile, const Left<T>& left, const Stored<T>* right,
                                           unsigned stride) {
  using Layout = std::conditional_t<kOrder == Order::kRows, nvcuda::wmma::row_major, nvcuda::wmma::col_major>;
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, kTileSide, kTileSide, kTileSide, Stored<T>, Layout> factor;
  nvcuda::wmma::load_matrix_sync(factor, right, stride);
  nvcuda::wmma::mma_sync(tile.sum, left.factor, factor, tile.sum);
}

__device__ __forceinline__ int LaneInWarp() { return static_cast<int>(threadIdx.x % 32); }

// A thread computes 4 adjacent columns of two rows that are 8 apart. Four numbers along the depth are read at once.
template <Order kOrder>
__device__ __forceinline__ void AddProduct(WarpTile<float>& tile, const Left<float>& left, const float* right,
                                           unsigned stride) {
  const auto lane = static_cast<unsigned>(LaneInWarp());
  const unsigned row = lane / 4, column = lane % 4 * 4;
  for (unsigned depth = 0; depth < kTileSide; depth += 4) {
    Pack<float> a[2], b[4];
    for (unsigned i = 0; i < 2; ++i) a[i] = LoadPack(left.from + (row + 8 * i) * left.stride + depth);
    for (unsigned i = 0; i < 4; ++i) {
      b[i] = LoadPack(kOrder == Order::kRows ? right + (depth + i) * stride + column
                                             : right + (column + i) * stride + depth);
    }
    for (int k = 0; k < 4; ++k) {
      for (int i = 0; i < kTileElements; ++i) {
        const float x = kOrder == Order::kRows ? b[k].value[i % 4] : b[i % 4].value[k];
        tile.sum[i] = fmaf(a[i / 4].value[k], x, tile.sum[i]);
      }
    }
  }
}

// Tells which element of a tile this thread's tile[i] is. All threads of a block construct their WarpPlaces together.
// Except for float, the constructor includes a barrier of the block, and callers rely on that barrier.
template <class T>
class WarpPlaces {
 public:
  __device__ __forceinline__ WarpPlaces() {
    if constexpr (std::is_same_v<T, float>) {
      for (int i = 0; i < kTileElements; ++i) {
        place_[i] = (LaneInWarp() / 4 + i / 4 * 8) * kTileSide + LaneInWarp() % 4 * 4 + i % 4;
      }
    } else {
      alignas(32) __shared__ float numbers[kTileSide * kTileSide];
      for (unsigned i = threadIdx.x; i < kTileSide * kTileSide; i += blockDim.x) numbers[i] = static_cast<float>(i);
      __syncthreads();
      WarpTile<T> tile;
      nvcuda::wmma::load_matrix_sync(tile.sum, numbers, kTileSide, nvcuda::wmma::mem_row_major);
      for (int i = 0; i < kTileElements; ++i) place_[i] = static_cast<int>(tile[i]);
    }
  }

  __device__ __forceinline__ int Row(int i) const { return place_[i] / kTileSide; }
  __device__ __forceinline__ int Column(int i) const { return place_[i] % kTileSide; }

 private:
  int place_[kTileElements];
};

// Stores a tile as T, rounding each number once.
template <class T>
__device__ __forceinline__ void StoreRounded(WarpTile<T>& tile, const WarpPlaces<T>& places, Stored<T>* to,
                                             int stride) {
  for (int i = 0; i < kTileElements; ++i) {
    to[places.Row(i) * stride + places.Column(i)] = ToStored(Rounded<T>(tile[i]));
  }
}

template <class T>
__device__ __forceinline__ void StoreSums(WarpTile<T>& tile, const WarpPlaces<T>& places, float* to, int stride) {
  if constexpr (std::is_same_v<T, float>) {
    StoreRounded(tile, places, to, stride);
  } else {
    nvcuda::wmma::store_matrix_sync(to, tile.sum, static_cast<unsigned>(stride), nvcuda::wmma::mem_row_major);
  }
}

// `count` rows of `width` numbers in device memory.
template <class T>
struct GlobalRows {
  T* first;
  std::int64_t stride;
  int count, width;
  bool packed;  // the result of ArePacked
};

// Loads pack `i` of rows that are filled up to kWidth numbers. Numbers outside the array become zero.
template <int kWidth, class T>
__device__ __forceinline__ void LoadPackOfRows(const GlobalRows<const T>& from, int i, Stored<T>* to, int to_stride) {
  constexpr int kCount = Pack<T>::kCount, kPacks = kWidth / kCount;
  const int row = i / kPacks, column = i % kPacks * kCount;
  const T* source = from.first + row * from.stride + column;
  Stored<T>* target = to + row * to_stride + column;
  if (from.packed) {
    const bool is_there = row < from.count && column < from.width;
    *reinterpret_cast<uint4*>(target) = is_there ? *reinterpret_cast<const uint4*>(source) : uint4{0, 0, 0, 0};
  } else {
    for (int j = 0; j < kCount; ++j) {
      target[j] = row < from.count && column + j < from.width ? ToStored(source[j]) : ToStored(T{});
    }
  }
}

// Loads kRows x kWidth numbers from device memory with kThreads threads; the calling thread has number `thread`.
// Numbers outside the array become zero.
template <int kRows, int kWidth, int kThreads, class T>
__device__ __forceinline__ void LoadRows(const GlobalRows<const T>& from, int thread, Stored<T>* to, int to_stride) {
  constexpr int kPacks = kRows * kWidth / Pack<T>::kCount;
  for (int i = thread; i < kPacks; i += kThreads) LoadPackOfRows<kWidth, T>(from, i, to, to_stride);
}

// As LoadRows, for kernels that have no registers to spare: each thread loads only one pack at a time.
template <int kRows, int kWidth, int kThreads, class T>
__device__ __forceinline__ void LoadRowsSparingly(const GlobalRows<const T>& from, int thread, Stored<T>* to,
                                                  int to_stride) {
  constexpr int kPacks = kRows * kWidth / Pack<T>::kCount;
#pragma unroll 1
  for (int i = thread; i < kPacks; i += kThreads) LoadPackOfRows<kWidth, T>(from, i, to, to_stride);
}

// Stores those of kRows x kWidth numbers that lie inside the array `to` in device memory.
template <int kRows, int kWidth, int kThreads, class T>
__device__ __forceinline__ void StoreRows(const Stored<T>* from, int from_stride, int thread, const GlobalRows<T>& to) {
  constexpr int kCount = Pack<T>::kCount, kPacks = kWidth / kCount;
  for (int i = thread; i < kRows * kPacks; i += kThreads) {
    const int row = i / kPacks, column = i % kPacks * kCount;
    if (row >= to.count) return;
    const Stored<T>* source = from + row * from_stride + column;
    T* target = to.first + row * to.stride + column;
    if (to.packed) {
      if (column < to.width) *reinterpret_cast<uint4*>(target) = *reinterpret_cast<const uint4*>(source);
    } else {
      for (int j = 0; j < kCount && column + j < to.width; ++j) target[j] = FromStored(source[j]);
    }
  }
}

}  // namespace capstan::kernels
