// LinearBackward: the backward pass of a linear layer, activation(x W' + b), to its parameters.
//
// Shapes: x [rows, in]; y, dy [rows, out]; weight gradient [out, in], bias gradient [out]; all dense.
// Types:  float, double, Bf16, Half; the parameters' gradients in Wide<T>.
// Parity: BiasActivationBackward, then Matmul. On a device the bias gradient is the sum of dx after rounding, if the
//         product with dy computes it as a by-product.
// Why:    on a CPU dy is read once for the activation's derivative and the bias gradient. A device need not read
//         it for either: the product that makes dy applies the derivative, and the one that makes the weight
//         gradient adds the sums.
#pragma once

#include "kernels/bias_activation.h"
#include "kernels/matmul.h"

namespace capstan::kernels {

template <class T>
struct LinearGradient {
  std::int64_t rows = 0, in = 0, out = 0;
  const T* x = nullptr;
  Activation activation = Activation::kNone;
  const T* y = nullptr;  // as BiasActivationGradient::x
  T* dy = nullptr;       // becomes the gradient before the activation, in place
  Wide<T>* weight_gradient = nullptr;
  Wide<T>* bias_gradient = nullptr;
  Wide<T> beta = 0;  // of both gradients: beta * old + gradient; 0: written without being read
};

// A linear layer's backward pass has two steps. The first one is that of bias and activation. The second one is a
// matrix product, which makes the weight gradient, dy' x.
template <class T>
BiasActivationGradient<T> BiasActivationOf(const LinearGradient<T>& g) {
  return {.rows = g.rows,
          .columns = g.out,
          .activation = g.activation,
          .x = g.y,
          .dy = g.dy,
          .bias_gradient = g.bias_gradient,
          .beta = g.beta};
}
template <class T>
Product<T, Wide<T>> WeightGradientOf(const LinearGradient<T>& g) {
  return {.m = g.out,
          .n = g.in,
          .k = g.rows,
          .a = {g.dy, g.out, Transpose::kYes},
          .b = {g.x, g.in},
          .c = g.weight_gradient,
          .c_stride = g.in,
          .beta = g.beta};
}

template <class T>
void LinearBackward(CpuContext& context, const LinearGradient<T>& gradient);
template <class T>
void LinearBackward(CudaContext& context, const LinearGradient<T>& gradient);

// As above, but dy is not computed yet: it is the C of the product `incoming`.
template <class T>
void LinearBackward(CpuContext& context, const LinearGradient<T>& gradient, const Product<T>& incoming);
template <class T>
void LinearBackward(CudaContext& context, const LinearGradient<T>& gradient, const Product<T>& incoming);

}  // namespace capstan::kernels
