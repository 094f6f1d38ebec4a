#include "common/data/number16.h"

#include <cmath>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "tests/catch.h"

namespace capstan {
namespace {

// Returns the value of a 16-bit floating-point number, by the definition of its format.
double Meaning(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const std::uint32_t fraction = bits & ((1U << fraction_bits) - 1);
  const auto exponent = static_cast<int>(bits >> fraction_bits & ((1U << exponent_bits) - 1));
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits >> 15) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) {
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp(fraction + (1U << fraction_bits), exponent - bias - fraction_bits);
}
double Meaning(Bf16 x) { return Meaning(x.bits, 8, 7); }
double Meaning(Half x) { return Meaning(x.bits, 5, 10); }

template <class T>
constexpr double kOverflowsAt = 0;
template <>
constexpr double kOverflowsAt<Half> = 65520.0;
template <>
constexpr double kOverflowsAt<Bf16> = 0x1.FFp127;

// Whether y is the T nearest to x. If two are equally near, it must be the one with an even last bit. This compares y
// with its neighbours.
template <class T>
bool IsNearest(T y, double x) {
  if (std::abs(x) >= kOverflowsAt<T>) return std::isinf(Meaning(y)) && std::signbit(x) == std::signbit(Meaning(y));
  const double error = std::abs(Meaning(y) - x);
  for (const int step : {-1, 1}) {
    const T other{static_cast<std::uint16_t>(y.bits + step)};
    const double value = Meaning(other);
    if ((y.bits & 0x7FFF) == 0 && step == -1) continue;  // below zero lies another sign
    if (!std::isfinite(value) || std::signbit(value) != std::signbit(x)) continue;
    if (std::abs(value - x) < error) return false;
    if (std::abs(value - x) == error && (y.bits & 1) != 0) return false;
  }
  return true;
}

template <class T>
void CheckAllBits() {
  std::vector<T> all(1 << 16);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].bits = static_cast<std::uint16_t>(i);
  std::vector<float> wide(all.size(), -1.0F);
  std::vector<T> back(all.size());
  WidenAll(all, wide.data());
  NarrowAll(wide, back.data());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double meaning = Meaning(all[i]);
    const float one = Widen(all[i]);
    if (std::isnan(meaning)) {
      wrong += !std::isnan(wide[i]) || !std::isnan(one) || !std::isnan(Meaning(back[i]));
    } else {
      wrong += wide[i] != meaning || one != meaning || std::signbit(one) != std::signbit(meaning) ||
               back[i].bits != all[i].bits;
    }
  }
  CHECK(wrong == 0);
}

template <class T>
void CheckRounding() {
  std::vector<float> values;
  for (std::uint64_t i = 0; i < 200000; ++i) {
    const auto bits = static_cast<std::uint32_t>(PhiloxKey(17, i, 0));
    const float any = __builtin_bit_cast(float, bits);
    if (std::isfinite(any)) values.push_back(any);
    // Adds a number whose exponent is about in the range of Half, and one that is halfway between two neighbours.
    values.push_back(std::ldexp(1.0F + static_cast<float>(bits & 0x7FFFFF) * 0x1p-23F, static_cast<int>(i % 46) - 27));
    const T at{static_cast<std::uint16_t>(bits)};
    const T next{static_cast<std::uint16_t>(bits + 1)};
    if (std::isfinite(Meaning(at)) && std::isfinite(Meaning(next))) {
      const double middle = (Meaning(at) + Meaning(next)) / 2;
      if (static_cast<double>(static_cast<float>(middle)) == middle) values.push_back(static_cast<float>(middle));
    }
  }
  std::vector<T> narrow(values.size());
  NarrowAll(values, narrow.data());
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    wrong += !IsNearest(narrow[i], static_cast<double>(values[i])) || Narrow<T>(values[i]).bits != narrow[i].bits;
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("every 16-bit number widens to what its bits stand for, and back", "[number16]") {
  CheckAllBits<Bf16>();
  CheckAllBits<Half>();
}

TEST_CASE("narrowing takes the nearest number, and of two the even one", "[number16]") {
  CheckRounding<Bf16>();
  CheckRounding<Half>();
}

TEST_CASE("what is too large for 16 bits becomes infinity, and NaN stays NaN", "[number16]") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(std::isinf(Widen(Narrow<Half>(65520.0F))));
  CHECK(Widen(Narrow<Half>(65519.996F)) == 65504.0F);
  CHECK(Widen(Narrow<Half>(-infinity)) == -infinity);
  CHECK(Widen(Narrow<Bf16>(infinity)) == infinity);
  CHECK(std::isinf(Widen(Narrow<Bf16>(std::numeric_limits<float>::max()))));
  // The fraction of this NaN is set only in the lower 16 bits, which narrowing to Bf16 cuts off.
  CHECK(std::isnan(Widen(Narrow<Bf16>(__builtin_bit_cast(float, 0x7F800001U)))));
  CHECK(std::isnan(Widen(Narrow<Half>(__builtin_bit_cast(float, 0x7F800001U)))));
}

}  // namespace capstan
