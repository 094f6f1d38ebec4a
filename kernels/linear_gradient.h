// LinearBackward: from dy, the gradients of a linear layer's parameters W and b. The layer is y = activation(x W' + b).
//
// Shapes: x [rows, in]; y, dy [rows, out]; weight gradient [out, in], bias gradient [out]; all dense.
// Types:  float, double, Bf16, Half; the parameters' gradients in Wide<T>.
// Parity: BiasActivationBackward, then Matmul. On a device, if the product that makes the weight gradient also makes
//         the bias gradient, the bias gradient is a sum of numbers that were rounded to T.
// Why:    on a CPU dy is read once for both the activation's derivative and the bias gradient. On a device cuBLASLt can
//         save that reading: the product that makes dy applies GELU's derivative, and the product that makes the weight
//         gradient also adds the bias gradient.
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
  T* dy = nullptr;       // becomes the gradient of x W' + b, in place
  Wide<T>* weight_gradient = nullptr;
  Wide<T>* bias_gradient = nullptr;
  Wide<T> beta = 0;  // of both gradients: beta * old + gradient; 0: written without being read
};

// The two steps of LinearBackward: the backward pass of bias and activation, and then the matrix product dy' x, which
// is the weight gradient.
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
// Returns the second step's product for rows [begin, end) of the weight gradient.
template <class T>
Product<T, Wide<T>> WeightGradientOf(const LinearGradient<T>& g, std::int64_t begin, std::int64_t end) {
  return {.m = end - begin,
          .n = g.in,
          .k = g.rows,
          .a = {g.dy + begin, g.out, Transpose::kYes},
          .b = {g.x, g.in},
          .c = g.weight_gradient + begin * g.in,
          .c_stride = g.in,
          .beta = g.beta};
}
template <class T>
Product<T, Wide<T>> WeightGradientOf(const LinearGradient<T>& g) {
  return WeightGradientOf(g, 0, g.out);
}

template <class T>
void LinearBackward(CpuContext& context, const LinearGradient<T>& gradient);
template <class T>
void LinearBackward(CudaContext& context, const LinearGradient<T>& gradient);

// Computes dy, as the C of the product `incoming`, and then the gradients from dy.
template <class T>
void LinearBackward(CpuContext& context, const LinearGradient<T>& gradient, const Product<T>& incoming);
template <class T>
void LinearBackward(CudaContext& context, const LinearGradient<T>& gradient, const Product<T>& incoming);

}  // namespace capstan::kernels
