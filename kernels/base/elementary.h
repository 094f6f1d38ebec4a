// exp, log, tanh, sigmoid and sin/cos of 2*pi*u as fixed polynomials, for float and double.
//
// Types:  float (within 2 ulp) and double (relative 1e-15).
// Parity: only IEEE +, *, /, fma and bit operations: the same bits on every machine, in scalar and in vector loops.
// Why:    a weight must not depend on the installed libm; and a loop over these functions vectorises, because they have
//         no branches. They are constexpr so that device code may call them too.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace capstan::kernels {

// Constants of a floating-point type for the bit operations below.
template <class Real>
struct FloatLayout;

template <>
struct FloatLayout<float> {
  using Bits = std::uint32_t;
  static constexpr int kMantissaBits = 23;
  static constexpr Bits kExponentBias = 127;
  static constexpr Bits kSqrtHalfBits = 0x3f3504f3;
  static constexpr float kRounder = 0x1.8p23F;     // adding it rounds to an integer that then lies in the low bits
  static constexpr float kLn2High = 0x1.62e4p-1F;  // few bits, so that its products with exponents are exact
  static constexpr float kLn2Low = 0x1.7f7d1cp-20F;
  static constexpr float kExpMax = 88.8F, kExpMin = -86.6F;
  static constexpr float kTanhMax = 10.0F;
};

template <>
struct FloatLayout<double> {
  using Bits = std::uint64_t;
  static constexpr int kMantissaBits = 52;
  static constexpr Bits kExponentBias = 1023;
  static constexpr Bits kSqrtHalfBits = 0x3fe6a09e667f3bcd;
  static constexpr double kRounder = 0x1.8p52;
  static constexpr double kLn2High = 0x1.62e42fefap-1;
  static constexpr double kLn2Low = 0x1.cf79abc9e3b39p-40;
  static constexpr double kExpMax = 709.8, kExpMin = -707.0;
  static constexpr double kTanhMax = 20.0;
};

// Returns c0 + x * (c1 + x * (c2 + ...)).
template <class Real>
constexpr Real Horner(Real, Real c0) {
  return c0;
}
template <class Real, class... Rest>
constexpr Real Horner(Real x, Real c0, Rest... rest) {
  return std::fma(x, Horner<Real>(x, rest...), c0);
}

// Returns e^x. Overflow gives infinity, results below about 2^-125 (double: 2^-1020) give 0, NaN gives NaN.
template <class Real>
constexpr Real Exp(Real x) {
  using L = FloatLayout<Real>;
  const Real shifted = std::fma(x, Real(1.44269504088896340736), L::kRounder);
  const Real n = shifted - L::kRounder;
  const Real r = std::fma(n, -L::kLn2Low, std::fma(n, -L::kLn2High, x));  // |r| <= ln(2) / 2
  Real p;
  if constexpr (std::is_same_v<Real, float>) {
    p = Horner<Real>(r, 1.0F, 1.0F, 0.5F, 1.0F / 6, 1.0F / 24, 1.0F / 120, 1.0F / 720, 1.0F / 5040);
  } else {
    p = Horner<Real>(r, 1.0, 1.0, 0.5, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880,
                     1.0 / 3628800, 1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800);
  }
  // The exponent is n - 1, so that the largest n still has a finite scale.
  const auto scale_bits = (std::bit_cast<typename L::Bits>(shifted) + (L::kExponentBias - 1)) << L::kMantissaBits;
  Real result = (p + p) * std::bit_cast<Real>(scale_bits);
  result = x > L::kExpMax ? std::numeric_limits<Real>::infinity() : result;
  return x < L::kExpMin ? Real(0) : result;
}

// Returns the natural logarithm of a normal positive number. 0 gives -infinity, negative numbers and NaN give NaN.
template <class Real>
constexpr Real Log(Real x) {
  using L = FloatLayout<Real>;
  using Bits = typename L::Bits;
  constexpr Bits kOne = L::kExponentBias << L::kMantissaBits;
  constexpr Bits kMantissa = (Bits{1} << L::kMantissaBits) - 1;
  // x = 2^k * m with m in [sqrt(1/2), sqrt(2)).
  const Bits moved = std::bit_cast<Bits>(x) + (kOne - L::kSqrtHalfBits);
  const Real m = std::bit_cast<Real>((moved & kMantissa) + L::kSqrtHalfBits);
  const Bits k_bits = (moved >> L::kMantissaBits) - L::kExponentBias + std::bit_cast<Bits>(L::kRounder);
  const Real k = std::bit_cast<Real>(k_bits) - L::kRounder;
  // log(m) = 2 atanh(s) = 2 (s + s^3/3 + s^5/5 + ...), s = (m - 1) / (m + 1).
  const Real f = m - Real(1);
  const Real s = f / (m + Real(1));
  const Real z = s * s;
  Real tail;  // (atanh(s) - s) / s
  if constexpr (std::is_same_v<Real, float>) {
    tail = z * Horner<Real>(z, 1.0F / 3, 1.0F / 5, 1.0F / 7, 1.0F / 9);
  } else {
    tail = z * Horner<Real>(z, 1.0 / 3, 1.0 / 5, 1.0 / 7, 1.0 / 9, 1.0 / 11, 1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19,
                            1.0 / 21);
  }
  // 2 s = f - s f, which keeps the rounding error of s out of the leading term.
  const Real log_m = f - s * (f - (tail + tail));
  Real result = std::fma(k, L::kLn2High, std::fma(k, L::kLn2Low, log_m));
  constexpr Real kInfinity = std::numeric_limits<Real>::infinity();
  result = x < kInfinity ? result : x;  // infinity and NaN stay
  result = x < Real(0) ? std::numeric_limits<Real>::quiet_NaN() : result;
  return x == Real(0) ? -kInfinity : result;
}

// Returns 1 / (1 + e^-x).
template <class Real>
constexpr Real Sigmoid(Real x) {
  return Real(1) / (Real(1) + Exp(-x));
}

template <class Real>
constexpr Real Tanh(Real x) {
  using L = FloatLayout<Real>;
  const Real a = std::fabs(x);
  const Real z = a * a;
  Real sinh_over_a, cosh_a;  // for small arguments, where e^2a - 1 would cancel
  if constexpr (std::is_same_v<Real, float>) {
    sinh_over_a = Horner<Real>(z, 1.0F, 1.0F / 6, 1.0F / 120, 1.0F / 5040);
    cosh_a = Horner<Real>(z, 1.0F, 0.5F, 1.0F / 24, 1.0F / 720, 1.0F / 40320);
  } else {
    sinh_over_a = Horner<Real>(z, 1.0, 1.0 / 6, 1.0 / 120, 1.0 / 5040, 1.0 / 362880, 1.0 / 39916800, 1.0 / 6227020800,
                               1.0 / 1307674368000);
    cosh_a = Horner<Real>(z, 1.0, 0.5, 1.0 / 24, 1.0 / 720, 1.0 / 40320, 1.0 / 3628800, 1.0 / 479001600,
                          1.0 / 87178291200, 1.0 / 20922789888000);
  }
  const Real bounded = a > L::kTanhMax ? L::kTanhMax : a;
  const Real e = Exp(bounded + bounded);
  const bool small = a < Real(0.5);
  const Real numerator = small ? a * sinh_over_a : e - Real(1);
  const Real denominator = small ? cosh_a : e + Real(1);
  return std::copysign(numerator / denominator, x);
}

template <class Real>
struct SineCosine {
  Real sine, cosine;
};

// Returns sin(2 pi u) and cos(2 pi u) for |u| below 2^20.
template <class Real>
constexpr SineCosine<Real> SinCos2Pi(Real u) {
  using L = FloatLayout<Real>;
  const Real shifted = std::fma(Real(4), u, L::kRounder);
  const Real r = std::fma(shifted - L::kRounder, Real(-0.25), u);  // exact; |r| <= 1/8
  const Real a = r * Real(6.28318530717958647693);
  const Real z = a * a;
  Real sine, cosine;
  if constexpr (std::is_same_v<Real, float>) {
    sine = Horner<Real>(z, 1.0F, -1.0F / 6, 1.0F / 120, -1.0F / 5040, 1.0F / 362880);
    cosine = Horner<Real>(z, 1.0F, -0.5F, 1.0F / 24, -1.0F / 720, 1.0F / 40320);
  } else {
    sine = Horner<Real>(z, 1.0, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800,
                        -1.0 / 1307674368000);
    cosine = Horner<Real>(z, 1.0, -0.5, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600,
                          -1.0 / 87178291200, 1.0 / 20922789888000);
  }
  sine *= a;
  const auto quadrant = std::bit_cast<typename L::Bits>(shifted);
  const bool swapped = (quadrant & 1) != 0;
  const Real s = swapped ? cosine : sine;
  const Real c = swapped ? sine : cosine;
  return {(quadrant & 2) != 0 ? -s : s, ((quadrant + 1) & 2) != 0 ? -c : c};
}

}  // namespace capstan::kernels
