// Arrays for tests, and their comparison.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "common/base/random.h"
#include "common/data/number16.h"

namespace capstan::kernels {

// Returns random numbers in [-1, 1) that use all bits of the mantissa.
template <class Real>
std::vector<Real> RandomNumbers(std::int64_t count, std::uint64_t seed) {
  RandomStream stream(seed);
  std::vector<Real> values(static_cast<std::size_t>(count));
  for (Real& value : values) value = Narrow<Real>(static_cast<Wide<Real>>(2 * stream.Unit() - 1));
  return values;
}

template <class Real>
std::vector<Real> Poison(std::int64_t count) {
  return std::vector<Real>(static_cast<std::size_t>(count), Narrow<Real>(std::numeric_limits<Wide<Real>>::quiet_NaN()));
}

inline std::vector<std::int32_t> RandomIndices(std::int64_t count, std::int32_t bound, std::uint64_t seed) {
  RandomStream stream(seed);
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  for (std::int32_t& value : values) value = static_cast<std::int32_t>(stream.Below(static_cast<std::uint64_t>(bound)));
  return values;
}

template <class Real>
double DotOf(const std::vector<Real>& x, const std::vector<Real>& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return sum;
}

// Returns |x - y| / |y| in the Euclidean norm; infinity if an element is NaN or the lengths differ.
template <class A, class B>
double RelativeDistance(const std::vector<A>& x, const std::vector<B>& y) {
  double difference = 0, norm = 0;
  if (x.size() != y.size()) return std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(Widen(x[i])) - static_cast<double>(Widen(y[i]));
    difference += d * d;
    norm += static_cast<double>(Widen(y[i])) * static_cast<double>(Widen(y[i]));
  }
  const double distance = std::sqrt(difference / std::max(norm, 1e-300));
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
}

template <class T>
std::vector<double> Doubles(const std::vector<T>& x) {
  std::vector<double> wide;
  for (const T& value : x) wide.push_back(static_cast<double>(Widen(value)));
  return wide;
}

template <class T>
bool SameBits(const std::vector<T>& x, const std::vector<T>& y) {
  return x.size() == y.size() && (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0);
}

// The tolerated relative error, in norm, of an array of T that was computed in fp32 and rounded to T once. For 16-bit
// numbers it is the most that rounding to nearest can cause. For float, which is not rounded again, it leaves room for
// the errors of some operations.
template <class T>
constexpr double kRounded = std::is_same_v<T, Bf16>   ? 0x1p-8
                            : std::is_same_v<T, Half> ? 0x1p-11
                                                      : 1e-6;

// Returns the central differences of f at x.
inline std::vector<double> NumericGradient(std::vector<double> x,
                                           const std::function<double(const std::vector<double>&)>& f) {
  constexpr double kStep = 1e-5;
  std::vector<double> gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double old = x[i];
    x[i] = old + kStep;
    const double above = f(x);
    x[i] = old - kStep;
    const double below = f(x);
    x[i] = old;
    gradient[i] = (above - below) / (2 * kStep);
  }
  return gradient;
}

}  // namespace capstan::kernels
