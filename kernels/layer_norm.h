// ResidualLayerNorm and LayerNormBackward (Ba, Kiros, Hinton, 2016), with the residual addition before it.
//
// Shapes: a, b, sum, y, dy, dx [rows, columns], dense; mean, inverse_deviation [rows]; gamma, beta [columns].
// Types:  float and double.
// Parity: sums over a row in the order of lanes.h; gradients of gamma and beta over rows in ascending order within
//         chunks that follow from the shape, the chunks in order.
#pragma once

#include <cstdint>

#include "kernels/context.h"

namespace capstan::kernels {

template <class Real>
struct ResidualLayerNormArgs {
  std::int64_t rows = 0, columns = 0;
  const Real* a = nullptr;
  const Real* b = nullptr;  // null: the input is a alone, and `sum` is not written
  Real* sum = nullptr;      // a + b; may be a or b
  const Real* gamma = nullptr;
  const Real* beta = nullptr;
  Real* y = nullptr;                  // (sum - mean) / deviation * gamma + beta
  Real* mean = nullptr;               // kept for the backward pass
  Real* inverse_deviation = nullptr;  // 1 / sqrt(variance + 1e-5)
};

template <class Real>
void ResidualLayerNorm(CpuContext& context, const ResidualLayerNormArgs<Real>& args);

template <class Real>
struct LayerNormGradient {
  std::int64_t rows = 0, columns = 0;
  const Real* x = nullptr;  // what was normalised: sum, or a
  const Real* mean = nullptr;
  const Real* inverse_deviation = nullptr;
  const Real* gamma = nullptr;
  const Real* dy = nullptr;
  Real* dx = nullptr;  // dx_beta * old + gradient; may be dy when dx_beta is 0
  Real dx_beta = 0;
  Real* gamma_gradient = nullptr;  // parameter_beta * old + gradient
  Real* beta_gradient = nullptr;
  Real parameter_beta = 0;
};

template <class Real>
void LayerNormBackward(CpuContext& context, const LayerNormGradient<Real>& args);

}  // namespace capstan::kernels
