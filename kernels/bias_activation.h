// BiasActivationBackward: the way back through y = activation(x + bias).
//
// Shapes: x, dy [rows, columns], dense; bias gradient [columns].
// Types:  float and double.
// Parity: a column is added in ascending rows, in groups of kRowGroup, the groups' sums in order.
// Why:    one pass over dy for both the activation's derivative and the bias gradient.
#pragma once

#include <cstdint>

#include "kernels/context.h"
#include "kernels/matmul.h"

namespace capstan::kernels {

template <class Real>
struct BiasActivationGradient {
  std::int64_t rows = 0, columns = 0;
  Activation activation = Activation::kNone;
  const Real* x = nullptr;        // kGelu: before the activation; kRelu: before or after; kNone: unused
  Real* dy = nullptr;             // becomes dx in place
  Real* bias_gradient = nullptr;  // beta * old + sum over rows of dx
  Real beta = 0;                  // 0: written without being read
};

template <class Real>
void BiasActivationBackward(CpuContext& context, const BiasActivationGradient<Real>& gradient);

}  // namespace capstan::kernels
