// ResidualLayerNorm: adds a residual and normalises the sum. LayerNormBackward: the gradients of the normalisation.
// (Ba, Kiros, Hinton, 2016)
//
// Shapes: a, b, sum, y, dy, dx [rows, columns], dense; mean, inverse_deviation [rows]; gamma, beta [columns].
// Types:  float, double, Bf16, Half; mean, inverse_deviation and the gradients of gamma and beta in Wide<T>. The input
//         of the normalisation is `sum` as it is stored.
// Parity: sums over a row in the order of lanes.h; gradients of gamma and beta over rows in ascending order within
//         chunks that follow from the shape, the chunks in order. On a device the orders are those of cuda/rows.h and
//         cuda/column_sums.h; within a chunk, rows that are four apart are added first if a row has up to 1024 columns.
#pragma once

#include <cstdint>

#include "common/data/number16.h"
#include "kernels/base/context.h"

namespace capstan::kernels {

template <class T>
struct ResidualLayerNormArgs {
  std::int64_t rows = 0, columns = 0;
  const T* a = nullptr;
  const T* b = nullptr;  // null: the input is a, and `sum` is not written
  T* sum = nullptr;      // a + b; may be a or b
  const T* gamma = nullptr;
  const T* beta = nullptr;
  T* y = nullptr;                        // (sum - mean) / deviation * gamma + beta
  Wide<T>* mean = nullptr;               // kept for the backward pass
  Wide<T>* inverse_deviation = nullptr;  // 1 / sqrt(variance + 1e-5)
};

template <class T>
void ResidualLayerNorm(CpuContext& context, const ResidualLayerNormArgs<T>& args);
template <class T>
void ResidualLayerNorm(CudaContext& context, const ResidualLayerNormArgs<T>& args);

template <class T>
struct LayerNormGradient {
  std::int64_t rows = 0, columns = 0;
  const T* x = nullptr;  // input of the normalisation: sum, or a
  const Wide<T>* mean = nullptr;
  const Wide<T>* inverse_deviation = nullptr;
  const T* gamma = nullptr;
  const T* dy = nullptr;
  T* dx = nullptr;  // dx_beta * old + gradient; may be dy when dx_beta is 0
  Wide<T> dx_beta = 0;
  Wide<T>* gamma_gradient = nullptr;  // parameter_beta * old + gradient
  Wide<T>* beta_gradient = nullptr;
  Wide<T> parameter_beta = 0;
};

template <class T>
void LayerNormBackward(CpuContext& context, const LayerNormGradient<T>& args);
template <class T>
void LayerNormBackward(CudaContext& context, const LayerNormGradient<T>& args);

}  // namespace capstan::kernels
