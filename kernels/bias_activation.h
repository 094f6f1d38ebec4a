// BiasActivationBackward: the backward pass of y = activation(x + bias).
//
// Shapes: x, dy [rows, columns], dense; bias gradient [columns].
// Types:  float, Bf16, Half; on a CPU also double; the bias gradient in Wide<T>, a sum of numbers dx that are not
//         rounded to T.
// Parity: a column is added in ascending rows, in groups of 64, the groups' sums in order.
//         On a device the groups' sums are added in the order of cuda/column_sums.h.
// Why:    one pass over dy for both the activation's derivative and the bias gradient.
#pragma once

#include <cstdint>

#include "common/data/number16.h"
#include "kernels/base/context.h"
#include "kernels/matmul.h"

namespace capstan::kernels {

template <class T>
struct BiasActivationGradient {
  std::int64_t rows = 0, columns = 0;
  Activation activation = Activation::kNone;
  const T* x = nullptr;              // kGelu: before the activation; kRelu: before or after; kNone: unused
  T* dy = nullptr;                   // becomes dx in place
  Wide<T>* bias_gradient = nullptr;  // beta * old + sum over rows of dx
  Wide<T> beta = 0;                  // 0: written without being read
};

template <class T>
void BiasActivationBackward(CpuContext& context, const BiasActivationGradient<T>& gradient);
template <class T>
void BiasActivationBackward(CudaContext& context, const BiasActivationGradient<T>& gradient);

}  // namespace capstan::kernels
