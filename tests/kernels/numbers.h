// Test arrays and comparisons.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "common/random.h"

namespace capstan::kernels {

// Numbers in [-1, 1), never round ones.
template <class Real>
std::vector<Real> RandomNumbers(std::int64_t count, std::uint64_t seed) {
  RandomStream stream(seed);
  std::vector<Real> values(static_cast<std::size_t>(count));
  for (Real& value : values) value = static_cast<Real>(2 * stream.Unit() - 1);
  return values;
}

template <class Real>
std::vector<Real> Poison(std::int64_t count) {
  return std::vector<Real>(static_cast<std::size_t>(count), std::numeric_limits<Real>::quiet_NaN());
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

// |x - y| / |y|; infinity when any element is not a number or the lengths differ.
template <class A, class B>
double RelativeDistance(const std::vector<A>& x, const std::vector<B>& y) {
  double difference = 0, norm = 0;
  if (x.size() != y.size()) return std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) - static_cast<double>(y[i]);
    difference += d * d;
    norm += static_cast<double>(y[i]) * static_cast<double>(y[i]);
  }
  const double distance = std::sqrt(difference / std::max(norm, 1e-300));
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
}

// Central differences of f at x.
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
