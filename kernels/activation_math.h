// ReLU and GELU of one number, and their derivatives; shared by the activation kernels and the products' epilogues.
#pragma once

#include "kernels/base/elementary.h"

namespace capstan::kernels {

template <class Real>
constexpr Real ReluOf(Real x) {
  return x < Real(0) ? Real(0) : x;  // NaN stays
}

// Returns u = 2 sqrt(2 / pi) (x + 0.044715 x^3), so that gelu(x) = x / 2 (1 + tanh(u / 2)) = x sigmoid(u).
template <class Real>
constexpr Real GeluArgument(Real x) {
  constexpr Real kLinear = Real(1.59576912160573071176), kCubic = Real(1.59576912160573071176 * 0.044715);
  return x * std::fma(kCubic * x, x, kLinear);
}

// Returns the tanh form of GELU (Hendrycks and Gimpel, 2016).
template <class Real>
constexpr Real GeluOf(Real x) {
  return x * Sigmoid(GeluArgument(x));
}

// Returns the derivative of GELU at x; `sigmoid` is Sigmoid(GeluArgument(x)).
template <class Real>
constexpr Real GeluDerivative(Real x, Real sigmoid) {
  constexpr Real kLinear = Real(1.59576912160573071176), kCubic = Real(3 * 1.59576912160573071176 * 0.044715);
  const Real slope = std::fma(kCubic * x, x, kLinear);  // derivative of GeluArgument
  return std::fma(x * slope, sigmoid * (Real(1) - sigmoid), sigmoid);
}
template <class Real>
constexpr Real GeluDerivative(Real x) {
  return GeluDerivative(x, Sigmoid(GeluArgument(x)));
}

}  // namespace capstan::kernels
