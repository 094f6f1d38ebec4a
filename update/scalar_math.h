// IntegerPower, NadamMomentum, NadamMomentumProduct: scalars of an update, from its number.
//
// Kind:   pure functions.
// Types:  double.
// Parity: the same bits on every machine. libm's pow and exp are not used, because their last bit differs between
//         versions.
#pragma once

#include <cstdint>

#include "kernels/base/elementary.h"

namespace capstan::formulas {

// Returns base^exponent by squaring.
inline double IntegerPower(double base, std::uint64_t exponent) {
  double power = 1.0;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) power *= base;
    base *= base;
  }
  return power;
}

// Returns e^x - 1 for x <= 0, without cancellation near 0.
inline double ExpMinusOne(double x) {
  if (x < -0.5) return kernels::Exp(x) - 1.0;
  double sum = 1.0;
  for (int n = 17; n >= 2; --n) sum = 1.0 + sum * x / n;  // x + x^2/2! + x^3/3! + ...
  return x * sum;
}

// NAdam's momentum of update t: beta1 * (1 - 0.96^(t * decay) / 2).
inline double NadamMomentum(double beta1, double decay, std::uint64_t t) {
  const double log_base = kernels::Log(0.96);
  return beta1 * (1.0 - 0.5 * kernels::Exp(log_base * (static_cast<double>(t) * decay)));
}

// Returns the product of NadamMomentum(beta1, decay, i) over i = 1 ... t; it needs only t. With q = 0.96^decay it is
// beta1^t * e^s, and s is the sum over i of
//   ln(1 - q^i / 2) = -(q^i / 2 + (q^i / 2)^2 / 2 + (q^i / 2)^3 / 3 + ...).
// Exchanging the two sums leaves geometric series: q^k + q^2k + ... + q^tk = q^k * (1 - q^tk) / (1 - q^k).
inline double NadamMomentumProduct(double beta1, double decay, std::uint64_t t) {
  const double power = IntegerPower(beta1, t);
  if (power < 0x1p-60) return 0.0;  // next to the 1 from which it is subtracted, nothing is left of it
  const double log_q = kernels::Log(0.96) * decay;
  double sum = 0.0, half_power = 1.0;
  for (int k = 1; k <= 60; ++k) {
    half_power *= 0.5;
    const double log_qk = k * log_q;
    const double terms =
        log_qk == 0.0 ? static_cast<double>(t)
                      : kernels::Exp(log_qk) * ExpMinusOne(static_cast<double>(t) * log_qk) / ExpMinusOne(log_qk);
    sum -= half_power / k * terms;
  }
  return power * kernels::Exp(sum);
}

}  // namespace capstan::formulas
