// The part of CUDA's header of this name that capstan uses: products of 16 x 16 tiles by a warp; see cuda_runtime.h.
//
// Parity: sums over k in ascending order, in float. A thread owns 8 elements of an accumulator, as on a device, but not
//         necessarily the same ones: CUDA leaves open which they are. A load or store is no barrier here either: a
//         thread sees what other threads of its warp have stored only after __syncwarp.
#pragma once

#include <type_traits>

#include "tests/emulation/cuda/cuda_bf16.h"
#include "tests/emulation/cuda/cuda_fp16.h"

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

// The factors a and b. Each thread holds, as floats, the numbers that its 8 elements of the product need: a row of a,
// and 8 columns of b.
template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment;
template <int M, int N, int K, class T, class Layout>
struct fragment<matrix_a, M, N, K, T, Layout> {
  static_assert(M == 16 && N == 16 && K == 16);
  float x[16];
};
template <int M, int N, int K, class T, class Layout>
struct fragment<matrix_b, M, N, K, T, Layout> {
  static_assert(M == 16 && N == 16 && K == 16);
  float x[16][8];
};
template <int M, int N, int K>
struct fragment<accumulator, M, N, K, float> {
  static_assert(M == 16 && N == 16 && K == 16);
  static constexpr int num_elements = 8;
  float x[num_elements];
  // Return the row and the column of this thread's element x[i].
  static int Row(int i) { return (capstan::emulation::Lane() * num_elements + i) / 16; }
  static int Column(int i) { return (capstan::emulation::Lane() * num_elements + i) % 16; }
};

template <class Fragment, class T>
void fill_fragment(Fragment& f, T value) {
  for (int i = 0; i < Fragment::num_elements; ++i) f.x[i] = value;
}

template <class Layout, class T>
float Element(const T* from, unsigned stride, unsigned row, unsigned column) {
  return ToFloat(from[std::is_same_v<Layout, row_major> ? row * stride + column : column * stride + row]);
}

template <class T, class Layout>
void load_matrix_sync(fragment<matrix_a, 16, 16, 16, T, Layout>& f, const T* from, unsigned stride) {
  const auto row = static_cast<unsigned>(capstan::emulation::Lane()) / 2;
  for (unsigned k = 0; k < 16; ++k) f.x[k] = Element<Layout>(from, stride, row, k);
}

template <class T, class Layout>
void load_matrix_sync(fragment<matrix_b, 16, 16, 16, T, Layout>& f, const T* from, unsigned stride) {
  const auto first = static_cast<unsigned>(capstan::emulation::Lane()) % 2 * 8;
  for (unsigned k = 0; k < 16; ++k) {
    for (unsigned i = 0; i < 8; ++i) f.x[k][i] = Element<Layout>(from, stride, k, first + i);
  }
}

inline void load_matrix_sync(fragment<accumulator, 16, 16, 16, float>& f, const float* from, unsigned stride,
                             layout_t layout) {
  for (int i = 0; i < f.num_elements; ++i) {
    const auto row = static_cast<unsigned>(f.Row(i)), column = static_cast<unsigned>(f.Column(i));
    f.x[i] = layout == mem_row_major ? from[row * stride + column] : from[column * stride + row];
  }
}

inline void store_matrix_sync(float* to, const fragment<accumulator, 16, 16, 16, float>& f, unsigned stride,
                              layout_t layout) {
  for (int i = 0; i < f.num_elements; ++i) {
    const auto row = static_cast<unsigned>(f.Row(i)), column = static_cast<unsigned>(f.Column(i));
    to[layout == mem_row_major ? row * stride + column : column * stride + row] = f.x[i];
  }
}

template <class T, class LayoutA, class LayoutB>
void mma_sync(fragment<accumulator, 16, 16, 16, float>& d, const fragment<matrix_a, 16, 16, 16, T, LayoutA>& a,
              const fragment<matrix_b, 16, 16, 16, T, LayoutB>& b, const fragment<accumulator, 16, 16, 16, float>& c) {
  fragment<accumulator, 16, 16, 16, float> sum = c;
  for (int k = 0; k < 16; ++k) {
    for (int i = 0; i < sum.num_elements; ++i) sum.x[i] += a.x[k] * b.x[k][i];
  }
  d = sum;
}

}  // namespace nvcuda::wmma
// NOLINTEND
