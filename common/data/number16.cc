#include "common/data/number16.h"

#include <immintrin.h>

namespace capstan {

namespace {

constexpr int kNearestEven = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;

}  // namespace

float Widen(Half x) { return _cvtsh_ss(x.bits); }

template <>
Half Narrow<Half>(float x) {
  return {static_cast<std::uint16_t>(_mm_cvtsi128_si32(_mm_cvtps_ph(_mm_set_ss(x), kNearestEven)))};
}

void WidenAll(std::span<const Bf16> from, float* to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = Widen(from[i]);
}

void WidenAll(std::span<const Half> from, float* to) {
  std::size_t i = 0;
  for (; i + 8 <= from.size(); i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(&from[i]))));
  }
  for (; i < from.size(); ++i) to[i] = Widen(from[i]);
}

void NarrowAll(std::span<const float> from, Bf16* to) {
  for (std::size_t i = 0; i < from.size(); ++i) to[i] = Narrow<Bf16>(from[i]);
}

void NarrowAll(std::span<const float> from, Half* to) {
  std::size_t i = 0;
  for (; i + 8 <= from.size(); i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(&from[i]), kNearestEven));
  }
  for (; i < from.size(); ++i) to[i] = Narrow<Half>(from[i]);
}

}  // namespace capstan
