// What capstan uses of CUDA's header of that name: products of 16 x 16 tiles by a warp; see cuda_runtime.h.
//
// Parity: sums over k in ascending order, in float. A thread owns 8 elements of an accumulator, as on a device, though
//         not the same ones, which CUDA leaves open.
#pragma once

#include <type_traits>

#include "kernels/emulation/cuda/cuda_bf16.h"
#include "kernels/emulation/cuda/cuda_fp16.h"

// NOLINTBEGIN: the names are CUDA's.
namespace nvcuda::wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };

inline float ToFloat(__half x) { return __half2float(x); }
inline float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }

// Factors: each thread holds the whole tile.
template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
  static_assert(M == 16 && N == 16 && K == 16);
  static constexpr int num_elements = 256;
  T x[num_elements];
};
template <int M, int N, int K>
struct fragment<accumulator, M, N, K, float> {
  static_assert(M == 16 && N == 16 && K == 16);
  static constexpr int num_elements = 8;
  float x[num_elements];
  // The element that x[i] of this thread is.
  static int Row(int i) { return (capstan::emulation::Lane() * num_elements + i) / 16; }
  static int Column(int i) { return (capstan::emulation::Lane() * num_elements + i) % 16; }
};

template <class Fragment, class T>
void fill_fragment(Fragment& f, T value) {
  for (int i = 0; i < Fragment::num_elements; ++i) f.x[i] = value;
}

template <class Use, class T, class Layout>
void load_matrix_sync(fragment<Use, 16, 16, 16, T, Layout>& f, const T* from, unsigned stride) {
  __syncwarp();
  for (unsigned row = 0; row < 16; ++row) {
    for (unsigned column = 0; column < 16; ++column) {
      f.x[row * 16 + column] =
          std::is_same_v<Layout, row_major> ? from[row * stride + column] : from[column * stride + row];
    }
  }
  __syncwarp();
}

inline void load_matrix_sync(fragment<accumulator, 16, 16, 16, float>& f, const float* from, unsigned stride,
                             layout_t layout) {
  __syncwarp();
  for (int i = 0; i < f.num_elements; ++i) {
    const auto row = static_cast<unsigned>(f.Row(i)), column = static_cast<unsigned>(f.Column(i));
    f.x[i] = layout == mem_row_major ? from[row * stride + column] : from[column * stride + row];
  }
  __syncwarp();
}

inline void store_matrix_sync(float* to, const fragment<accumulator, 16, 16, 16, float>& f, unsigned stride,
                              layout_t layout) {
  __syncwarp();
  for (int i = 0; i < f.num_elements; ++i) {
    const auto row = static_cast<unsigned>(f.Row(i)), column = static_cast<unsigned>(f.Column(i));
    to[layout == mem_row_major ? row * stride + column : column * stride + row] = f.x[i];
  }
  __syncwarp();
}

template <class T, class LayoutA, class LayoutB>
void mma_sync(fragment<accumulator, 16, 16, 16, float>& d, const fragment<matrix_a, 16, 16, 16, T, LayoutA>& a,
              const fragment<matrix_b, 16, 16, 16, T, LayoutB>& b, const fragment<accumulator, 16, 16, 16, float>& c) {
  for (int i = 0; i < d.num_elements; ++i) {
    float sum = c.x[i];
    for (int k = 0; k < 16; ++k) sum += ToFloat(a.x[d.Row(i) * 16 + k]) * ToFloat(b.x[k * 16 + d.Column(i)]);
    d.x[i] = sum;
  }
}

}  // namespace nvcuda::wmma
// NOLINTEND
