// Readers: convert numbers in memory into the 32- or 64-bit numbers that a tile multiplies, several at once. For x86
// with AVX2 and later.
//
// Kind:   everything here is in an unnamed namespace, so that code for one instruction set is never linked in place of
//         another's. For the same reason the functions of common/data/number16.h are not used.
// Types:  DoubleReader and FloatReader take numbers as they are; Bf16Reader and HalfReader widen them; PairReader takes
//         two Bf16 that are consecutive in k as one number, with their bits in a float.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "common/data/number16.h"

namespace capstan::kernels {
namespace {

// Each reader has: kStep, how many values of k one packed number holds; One(in, next, left), which returns the packed
// number of in[0] and, for a pair, of in[next] unless left is 1; Row, which packs kCount adjacent columns; and, except
// for double, Eight and Four, which return eight and four packed numbers that are consecutive in k.
struct DoubleReader {
  using Source = double;
  using Packed = double;
  static constexpr int kStep = 1;
  static double One(const double* in, std::int64_t, std::int64_t) { return *in; }
  template <int kCount>
  static void Row(const double* __restrict in, std::int64_t, std::int64_t, double* __restrict out) {
    __builtin_memcpy(out, in, kCount * sizeof(double));
  }
};

struct FloatReader {
  using Source = float;
  using Packed = float;
  static constexpr int kStep = 1;
  static float One(const float* in, std::int64_t, std::int64_t) { return *in; }
  static __m256 Eight(const float* in) { return _mm256_loadu_ps(in); }
  static __m128 Four(const float* in) { return _mm_loadu_ps(in); }
  template <int kCount>
  static void Row(const float* __restrict in, std::int64_t, std::int64_t, float* __restrict out) {
    __builtin_memcpy(out, in, kCount * sizeof(float));
  }
};

inline double WidenOne(double x) { return x; }
inline float WidenOne(float x) { return x; }
inline float WidenOne(Bf16 x) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16); }
inline float WidenOne(Half x) { return _cvtsh_ss(x.bits); }

// Row of the readers that widen: converts kCount numbers, eight, four and one at a time.
template <class Reader, int kCount>
inline void WidenRow(const typename Reader::Source* in, float* out) {
  int i = 0;
  for (; i + 8 <= kCount; i += 8) _mm256_storeu_ps(out + i, Reader::Eight(in + i));
  for (; i + 4 <= kCount; i += 4) _mm_storeu_ps(out + i, Reader::Four(in + i));
  for (; i < kCount; ++i) out[i] = Reader::One(in + i, 0, 1);
}

struct Bf16Reader {
  using Source = Bf16;
  using Packed = float;
  static constexpr int kStep = 1;
  static float One(const Bf16* in, std::int64_t, std::int64_t) { return WidenOne(*in); }
  static __m256 Eight(const Bf16* in) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static __m128 Four(const Bf16* in) {
    const __m128i bits = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in));
    return _mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(bits), 16));
  }
  template <int kCount>
  static void Row(const Bf16* in, std::int64_t, std::int64_t, float* out) {
    WidenRow<Bf16Reader, kCount>(in, out);
  }
};

struct HalfReader {
  using Source = Half;
  using Packed = float;
  static constexpr int kStep = 1;
  static float One(const Half* in, std::int64_t, std::int64_t) { return WidenOne(*in); }
  static __m256 Eight(const Half* in) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in))); }
  static __m128 Four(const Half* in) { return _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(in))); }
  template <int kCount>
  static void Row(const Half* in, std::int64_t, std::int64_t, float* out) {
    WidenRow<HalfReader, kCount>(in, out);
  }
};

struct PairReader {
  using Source = Bf16;
  using Packed = float;
  static constexpr int kStep = 2;
  static float One(const Bf16* in, std::int64_t next, std::int64_t left) {
    const std::uint32_t second = left > 1 ? in[next].bits : 0;
    return __builtin_bit_cast(float, in->bits | second << 16);
  }
  static __m256 Eight(const Bf16* in) { return _mm256_loadu_ps(reinterpret_cast<const float*>(in)); }
  static __m128 Four(const Bf16* in) { return _mm_loadu_ps(reinterpret_cast<const float*>(in)); }
  template <int kCount>
  static void Row(const Bf16* in, std::int64_t next, std::int64_t left, float* out) {
    int i = 0;
    for (; i + 8 <= kCount && left > 1; i += 8) {
      const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
      const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + next + i));
      auto* to = reinterpret_cast<__m128i*>(out + i);
      _mm_storeu_si128(to, _mm_unpacklo_epi16(first, second));
      _mm_storeu_si128(to + 1, _mm_unpackhi_epi16(first, second));
    }
    for (; i < kCount; ++i) out[i] = One(in + i, next, left);
  }
};

// Writes out[k * width + r] = packed number k of row r, for one block of eight rows and eight packed numbers.
template <class Reader>
inline void InterleaveBlock(const typename Reader::Source* in, std::int64_t stride, float* out, std::int64_t width) {
  __m256 pairs[8], quads[8];
  for (int r = 0; r < 8; r += 2) {
    const __m256 even = Reader::Eight(in + r * stride), odd = Reader::Eight(in + (r + 1) * stride);
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

// As InterleaveBlock, for four rows and four packed numbers.
template <class Reader>
inline void InterleaveSmallBlock(const typename Reader::Source* in, std::int64_t stride, float* out,
                                 std::int64_t width) {
  __m128 r0 = Reader::Four(in), r1 = Reader::Four(in + stride);
  __m128 r2 = Reader::Four(in + 2 * stride), r3 = Reader::Four(in + 3 * stride);
  _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
  _mm_storeu_ps(out, r0);
  _mm_storeu_ps(out + width, r1);
  _mm_storeu_ps(out + 2 * width, r2);
  _mm_storeu_ps(out + 3 * width, r3);
}

template <class Reader>
void InterleaveScalar(const typename Reader::Source* in, std::int64_t stride, std::int64_t rows, std::int64_t depths,
                      typename Reader::Packed* out, std::int64_t width) {
  for (std::int64_t k = 0; k < depths; k += Reader::kStep, out += width) {
    for (std::int64_t r = 0; r < rows; ++r) out[r] = Reader::One(in + r * stride + k, 1, depths - k);
  }
}

// Turns rows into columns: out[k * width + r] = packed number k of row r, for r < rows. A row has `depths` numbers.
template <class Reader>
void Interleave(const typename Reader::Source* in, std::int64_t stride, std::int64_t rows, std::int64_t depths,
                typename Reader::Packed* out, std::int64_t width) {
  std::int64_t r = 0;
  if constexpr (sizeof(typename Reader::Packed) == sizeof(float)) {
    constexpr std::int64_t kStep = Reader::kStep;
    const std::int64_t whole = depths / kStep;  // packed numbers without padding
    for (; r + 8 <= rows; r += 8) {
      const auto* row = in + r * stride;
      std::int64_t k = 0;
      for (; k + 8 <= whole; k += 8) InterleaveBlock<Reader>(row + k * kStep, stride, out + k * width + r, width);
      InterleaveScalar<Reader>(row + k * kStep, stride, 8, depths - k * kStep, out + k * width + r, width);
    }
    for (; r + 4 <= rows; r += 4) {
      const auto* row = in + r * stride;
      std::int64_t k = 0;
      for (; k + 4 <= whole; k += 4) InterleaveSmallBlock<Reader>(row + k * kStep, stride, out + k * width + r, width);
      InterleaveScalar<Reader>(row + k * kStep, stride, 4, depths - k * kStep, out + k * width + r, width);
    }
  }
  InterleaveScalar<Reader>(in + r * stride, stride, rows - r, depths, out + r, width);
}

}  // namespace
}  // namespace capstan::kernels
