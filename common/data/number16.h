// Bf16, Half: 16-bit floating-point types for storing and sending weights, activations and gradients; arithmetic
// is in float.
//
// Kind:   values; pure functions.
// Parity: narrowing rounds to nearest, ties to even; values that are too large become infinity, denormals are kept, a
//         NaN becomes a quiet NaN. Widening is exact. The bits are the same on every machine.
// Why:    Half is IEEE 754 binary16. Bf16 is the upper half of a float: fewer digits, the same range.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

namespace capstan {

struct Bf16 {
  std::uint16_t bits = 0;
};
struct Half {
  std::uint16_t bits = 0;
};

template <class T>
inline constexpr bool kIs16Bit = std::is_same_v<T, Bf16> || std::is_same_v<T, Half>;

// The type in which arithmetic on T is done.
template <class T>
using Wide = std::conditional_t<kIs16Bit<T>, float, T>;

inline float Widen(Bf16 x) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16); }
float Widen(Half x);
inline float Widen(float x) { return x; }
inline double Widen(double x) { return x; }

// Narrow<T>(x) rounds x to a T. If T is float or double, x is returned unchanged.
template <class T>
T Narrow(Wide<T> x) {
  static_assert(!kIs16Bit<T>);
  return x;
}
template <>
inline Bf16 Narrow<Bf16>(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return {static_cast<std::uint16_t>(bits >> 16 | 0x40)};
  return {static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}
template <>
Half Narrow<Half>(float x);

// Convert all numbers of `from`. The arrays must not overlap.
void WidenAll(std::span<const Bf16> from, float* to);
void WidenAll(std::span<const Half> from, float* to);
void NarrowAll(std::span<const float> from, Bf16* to);
void NarrowAll(std::span<const float> from, Half* to);

}  // namespace capstan
