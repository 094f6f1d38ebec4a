// Interleave: rows become columns, in registers where there are eight or four of them. For x86 with AVX2 and later.
#pragma once

#include <immintrin.h>

#include <cstdint>

namespace capstan::kernels {
namespace {

// out[k * width + r] = in[r * stride + k] for one block of eight rows and eight depths.
inline void InterleaveBlock(const float* in, std::int64_t stride, float* out, std::int64_t width) {
  __m256 pairs[8], quads[8];
  for (int r = 0; r < 8; r += 2) {
    const __m256 even = _mm256_loadu_ps(in + r * stride), odd = _mm256_loadu_ps(in + (r + 1) * stride);
    pairs[r] = _mm256_unpacklo_ps(even, odd);      // k0: r r+1, k1: r r+1 | k4, k5
    pairs[r + 1] = _mm256_unpackhi_ps(even, odd);  // k2, k3 | k6, k7
  }
  for (int h = 0; h < 8; h += 4) {
    quads[h] = _mm256_shuffle_ps(pairs[h], pairs[h + 2], 0x44);          // k0 | k4 of rows h..h+3
    quads[h + 1] = _mm256_shuffle_ps(pairs[h], pairs[h + 2], 0xee);      // k1 | k5
    quads[h + 2] = _mm256_shuffle_ps(pairs[h + 1], pairs[h + 3], 0x44);  // k2 | k6
    quads[h + 3] = _mm256_shuffle_ps(pairs[h + 1], pairs[h + 3], 0xee);  // k3 | k7
  }
  for (int k = 0; k < 4; ++k) {
    _mm256_storeu_ps(out + k * width, _mm256_permute2f128_ps(quads[k], quads[k + 4], 0x20));
    _mm256_storeu_ps(out + (k + 4) * width, _mm256_permute2f128_ps(quads[k], quads[k + 4], 0x31));
  }
}

// The same for four rows and four depths.
inline void InterleaveSmallBlock(const float* in, std::int64_t stride, float* out, std::int64_t width) {
  __m128 r0 = _mm_loadu_ps(in), r1 = _mm_loadu_ps(in + stride);
  __m128 r2 = _mm_loadu_ps(in + 2 * stride), r3 = _mm_loadu_ps(in + 3 * stride);
  _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
  _mm_storeu_ps(out, r0);
  _mm_storeu_ps(out + width, r1);
  _mm_storeu_ps(out + 2 * width, r2);
  _mm_storeu_ps(out + 3 * width, r3);
}

template <class Real>
void InterleaveScalar(const Real* in, std::int64_t stride, std::int64_t rows, std::int64_t depths, Real* out,
                      std::int64_t width) {
  for (std::int64_t k = 0; k < depths; ++k) {
    for (std::int64_t r = 0; r < rows; ++r) out[k * width + r] = in[r * stride + k];
  }
}

// out[k * width + r] = in[r * stride + k] for r < rows, k < depths.
inline void Interleave(const float* in, std::int64_t stride, std::int64_t rows, std::int64_t depths, float* out,
                       std::int64_t width) {
  std::int64_t r = 0;
  for (; r + 8 <= rows; r += 8) {
    std::int64_t k = 0;
    for (; k + 8 <= depths; k += 8) InterleaveBlock(in + r * stride + k, stride, out + k * width + r, width);
    InterleaveScalar(in + r * stride + k, stride, 8, depths - k, out + k * width + r, width);
  }
  for (; r + 4 <= rows; r += 4) {
    std::int64_t k = 0;
    for (; k + 4 <= depths; k += 4) InterleaveSmallBlock(in + r * stride + k, stride, out + k * width + r, width);
    InterleaveScalar(in + r * stride + k, stride, 4, depths - k, out + k * width + r, width);
  }
  InterleaveScalar(in + r * stride, stride, rows - r, depths, out + r, width);
}

inline void Interleave(const double* in, std::int64_t stride, std::int64_t rows, std::int64_t depths, double* out,
                       std::int64_t width) {
  InterleaveScalar(in, stride, rows, depths, out, width);
}

}  // namespace
}  // namespace capstan::kernels
