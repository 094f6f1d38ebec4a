// Lanes: 16 numbers at once, and sums over arrays in an order that no compiler or vector width changes.
//
// Types:  float and double.
// Parity: Sum adds element i to lane i % 16, ascending, and then the lanes pairwise: 8 apart, 4, 2, 1.
// Why:    compilers may not reorder floating-point sums, so a plain loop stays scalar; here the code fixes the order.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

namespace capstan::kernels {

inline constexpr std::int64_t kLanes = 16;

// 16 numbers in vectors of 32 bytes, which compilers keep in registers.
template <class Real>
struct Lanes {
  using Vector [[gnu::vector_size(32)]] = Real;
  static constexpr int kVectorLanes = 32 / sizeof(Real);
  static constexpr int kVectors = kLanes / kVectorLanes;
  Vector part[kVectors];
};

template <class Real>
[[gnu::always_inline]] inline Lanes<Real> LoadLanes(const Real* from) {
  Lanes<Real> lanes;
  for (int v = 0; v < Lanes<Real>::kVectors; ++v) {
    std::memcpy(&lanes.part[v], from + v * Lanes<Real>::kVectorLanes, sizeof(lanes.part[v]));
  }
  return lanes;
}

// Loads the first `count` < kLanes elements; the other lanes become `fill`.
template <class Real>
[[gnu::always_inline]] inline Lanes<Real> LoadSomeLanes(const Real* from, std::int64_t count, Real fill) {
  Real padded[kLanes];
  for (std::int64_t i = 0; i < kLanes; ++i) padded[i] = i < count ? from[i] : fill;
  return LoadLanes(padded);
}

// Computes `lanes` = f(lanes, others...), vector by vector.
template <class Real, class F, class... Others>
[[gnu::always_inline]] inline void Combine(Lanes<Real>& lanes, const F& f, const Others&... others) {
  for (int v = 0; v < Lanes<Real>::kVectors; ++v) lanes.part[v] = f(lanes.part[v], others.part[v]...);
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
  const auto add = [](auto sum, auto v) { return sum + v; };
  Lanes<Real> sums{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Combine(sums, add, LoadLanes(x + i));
  if (i < count) Combine(sums, add, LoadSomeLanes(x + i, count - i, Real(0)));
  return SumLanes(sums);
}

// Returns the sum of (x[i] - center)^2.
template <class Real>
inline Real SumOfSquares(const Real* x, std::int64_t count, Real center) {
  const auto add = [center](auto sum, auto v) { return sum + (v - center) * (v - center); };
  Lanes<Real> sums{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Combine(sums, add, LoadLanes(x + i));
  if (i < count) Combine(sums, add, LoadSomeLanes(x + i, count - i, center));
  return SumLanes(sums);
}

// Returns the sum of x[i] * y[i].
template <class Real>
inline Real Dot(const Real* x, const Real* y, std::int64_t count) {
  const auto add = [](auto sum, auto v, auto w) { return sum + v * w; };
  Lanes<Real> sums{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Combine(sums, add, LoadLanes(x + i), LoadLanes(y + i));
  if (i < count) {
    Combine(sums, add, LoadSomeLanes(x + i, count - i, Real(0)), LoadSomeLanes(y + i, count - i, Real(0)));
  }
  return SumLanes(sums);
}

// Returns the largest element that is not NaN; -infinity if there is none.
template <class Real>
inline Real Max(const Real* x, std::int64_t count) {
  constexpr Real kLowest = -std::numeric_limits<Real>::infinity();
  const auto larger = [](auto largest, auto v) { return v > largest ? v : largest; };
  Lanes<Real> lanes;
  for (auto& part : lanes.part) part = typename Lanes<Real>::Vector{} + kLowest;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Combine(lanes, larger, LoadLanes(x + i));
  if (i < count) Combine(lanes, larger, LoadSomeLanes(x + i, count - i, kLowest));
  Real values[kLanes];
  std::memcpy(values, &lanes, sizeof(values));
  Real result = kLowest;
  for (const Real value : values) result = value > result ? value : result;
  return result;
}

}  // namespace capstan::kernels
