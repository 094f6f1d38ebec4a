// LinearBackward: the way back through a linear layer to its parameters: activation(x W' + b).
//
// Shapes: x [rows, in]; y, dy [rows, out]; weight gradient [out, in], bias gradient [out]; all dense.
// Types:  float, double, Bf16, Half; the parameters' gradients in Wide<T>.
// Parity: BiasActivationBackward, then Matmul. On a device the bias gradient, where the product with dy has it by the
//         way, is the sum of dx after it was rounded.
// Why:    on a CPU dy is read once for the activation's derivative and the bias gradient. A device need not read it for
//         either: the product that makes dy has the derivative, the one that makes the weight gradient has the sums.
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
  Wide<T> beta = 0;  // both: beta * old + gradient; 0: written without being read
};

// The two steps. A product makes the weight gradient: dy' x.
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

// The same, where dy is still to be made: `incoming` is the product whose C it is.
template <class T>
void LinearBackward(CpuContext& context, const LinearGradient<T>& gradient, const Product<T>& incoming);
template <class T>
void LinearBackward(CudaContext& context, const LinearGradient<T>& gradient, const Product<T>& incoming);

}  // namespace capstan::kernels
