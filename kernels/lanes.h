// Lanes: 16 numbers at once, and sums over arrays in an order that no compiler or vector width changes.
//
// Types:  float and double.
// Parity: Sum adds element i to lane i % 16, ascending, and then the lanes pairwise: 8 apart, 4, 2, 1.
// Why:    compilers may not reorder floating-point sums, so a plain loop stays scalar; here the order is ours.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

namespace capstan::kernels {

inline constexpr std::int64_t kLanes = 16;

template <class Real>
struct LaneType;
template <>
struct LaneType<float> {
  using Vector [[gnu::vector_size(kLanes * sizeof(float))]] = float;
};
template <>
struct LaneType<double> {
  using Vector [[gnu::vector_size(kLanes * sizeof(double))]] = double;
};

template <class Real>
using Lanes = typename LaneType<Real>::Vector;

template <class Real>
[[gnu::always_inline]] inline Lanes<Real> LoadLanes(const Real* from) {
  Lanes<Real> lanes;
  std::memcpy(&lanes, from, sizeof(lanes));
  return lanes;
}

// The first `count` < kLanes elements, the others `fill`.
template <class Real>
[[gnu::always_inline]] inline Lanes<Real> LoadSomeLanes(const Real* from, std::int64_t count, Real fill) {
  Real padded[kLanes];
  for (std::int64_t i = 0; i < kLanes; ++i) padded[i] = i < count ? from[i] : fill;
  return LoadLanes(padded);
}

template <class Real>
[[gnu::always_inline]] inline Real SumLanes(const Lanes<Real>& lanes) {
  Real values[kLanes];
  std::memcpy(values, &lanes, sizeof(values));
  for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (std::int64_t i = 0; i < half; ++i) values[i] += values[i + half];
  }
  return values[0];
}

template <class Real>
inline Real Sum(const Real* x, std::int64_t count) {
  Lanes<Real> sums{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) sums += LoadLanes(x + i);
  if (i < count) sums += LoadSomeLanes(x + i, count - i, Real(0));
  return SumLanes<Real>(sums);
}

// Sum of (x[i] - center)^2.
template <class Real>
inline Real SumOfSquares(const Real* x, std::int64_t count, Real center) {
  Lanes<Real> sums{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Lanes<Real> d = LoadLanes(x + i) - center;
    sums += d * d;
  }
  if (i < count) {
    const Lanes<Real> d = LoadSomeLanes(x + i, count - i, center) - center;
    sums += d * d;
  }
  return SumLanes<Real>(sums);
}

// Sum of x[i] * y[i].
template <class Real>
inline Real Dot(const Real* x, const Real* y, std::int64_t count) {
  Lanes<Real> sums{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) sums += LoadLanes(x + i) * LoadLanes(y + i);
  if (i < count) sums += LoadSomeLanes(x + i, count - i, Real(0)) * LoadSomeLanes(y + i, count - i, Real(0));
  return SumLanes<Real>(sums);
}

// Largest element; NaN is passed over. -infinity for none.
template <class Real>
inline Real Max(const Real* x, std::int64_t count) {
  constexpr Real kLowest = -std::numeric_limits<Real>::infinity();
  Lanes<Real> largest = Lanes<Real>{} + kLowest;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const Lanes<Real> v = LoadLanes(x + i);
    largest = v > largest ? v : largest;
  }
  Real result = kLowest;
  for (; i < count; ++i) result = x[i] > result ? x[i] : result;
  for (std::int64_t l = 0; l < kLanes; ++l) result = largest[l] > result ? largest[l] : result;
  return result;
}

}  // namespace capstan::kernels
