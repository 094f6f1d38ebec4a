// Linear and LayerNorm: layers of models. They hold the offsets of their parameters in the flat array of weights, but
// no data of a batch.
//
// Kind:   values.
// Shapes: linear: x [rows, in], y [rows, out], weight [out, in] as in torch.nn.Linear. layer norm: [rows, width].
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <type_traits>

#include "kernels/layer_norm.h"
#include "kernels/linear_gradient.h"
#include "kernels/matmul.h"
#include "worker/nn/parameters.h"

namespace capstan::nn {

// The flat array for the gradients, and whether to replace or add to what is there.
template <class T>
struct GradientTarget {
  Wide<T>* gradients = nullptr;
  Wide<T> beta = 0;  // 0 replaces, 1 adds
};

struct Linear {
  Linear(Parameters& parameters, const std::string& name, std::int64_t inputs, std::int64_t outputs, Init weight_init,
         Init bias_init)
      : in(inputs),
        out(outputs),
        weight(parameters.Add({name + ".weight", {outputs, inputs}, weight_init, true})),
        bias(parameters.Add({name + ".bias", {outputs}, bias_init, false})) {}

  // Computes y = x W' + b; with an activation also activated = f(y); `activated` may be y.
  template <class Context, class T>
  void Forward(Context& context, const T* weights, std::int64_t rows, const T* x, T* y,
               kernels::Activation activation = kernels::Activation::kNone, T* activated = nullptr) const {
    Matmul(context, kernels::Product<T>{.m = rows,
                                        .n = out,
                                        .k = in,
                                        .a = {x, in},
                                        .b = {weights + weight.offset, in, kernels::Transpose::kYes},
                                        .c = y,
                                        .c_stride = out,
                                        .bias = weights + bias.offset,
                                        .activation = activation,
                                        .activated = activated});
  }

  // Computes the gradients of weight and bias. With an activation, dy is first multiplied by the activation's
  // derivative, in place. `y`: for ReLU the layer's output, for GELU the value before the activation.
  template <class Context, class T>
  void BackwardParameters(Context& context, const GradientTarget<T>& target, std::int64_t rows, const T* x, T* dy,
                          kernels::Activation activation = kernels::Activation::kNone, const T* y = nullptr) const {
    LinearBackward(context, Gradient(target, rows, x, dy, activation, y));
  }

  // Does the same, and declares the gradients final. If hooks.gradient_ready_from is set, the weight's gradient is
  // computed from its last row to its first, and each part of it is declared final at once.
  template <class Context, class T>
  void BackwardParametersInParts(Context& context, const GradientTarget<T>& target, std::int64_t rows, const T* x,
                                 T* dy, kernels::Activation activation, const T* y, const Hooks& hooks) const {
    const kernels::LinearGradient<T> gradient = Gradient(target, rows, x, dy, activation, y);
    if (!hooks.gradient_ready_from) {
      LinearBackward(context, gradient);
      return GradientReady(hooks, weight, bias);
    }
    BiasActivationBackward(context, BiasActivationOf(gradient));
    GradientReady(hooks, bias, bias);  // first, so that blocks are final in descending order
    const std::int64_t part = RowsOfPart(context);
    for (std::int64_t end = out; end > 0;) {
      const std::int64_t begin = (end - 1) / part * part;
      Matmul(context, WeightGradientOf(gradient, begin, end));
      if (begin > 0) GradientReadyFrom(hooks, weight, begin * in);
      end = begin;
    }
    GradientReady(hooks, weight, weight);
  }

  // Does the same, but first computes dy: `incoming` is the InputProduct of the next layer, whose result is dy.
  template <class Context, class T>
  void BackwardParameters(Context& context, const GradientTarget<T>& target, const T* x,
                          const kernels::Product<T>& incoming, kernels::Activation activation, const T* y) const {
    LinearBackward(context, Gradient(target, incoming.m, x, incoming.c, activation, y), incoming);
  }

  // Returns the product dx = dy W.
  template <class T>
  kernels::Product<T> InputProduct(const T* weights, std::int64_t rows, const T* dy, T* dx) const {
    return {.m = rows, .n = in, .k = out, .a = {dy, out}, .b = {weights + weight.offset, in}, .c = dx, .c_stride = in};
  }
  template <class Context, class T>
  void BackwardInput(Context& context, const T* weights, std::int64_t rows, const T* dy, T* dx) const {
    Matmul(context, InputProduct(weights, rows, dy, dx));
  }

  std::int64_t in, out;
  Parameter weight, bias;

 private:
  // Returns how many rows of the weight's gradient are computed at once: about a block in whole tiles of most products,
  // and more if needed, so that packing x again costs little and each thread has work.
  template <class Context>
  std::int64_t RowsOfPart(const Context& context) const {
    constexpr std::int64_t kTiles = 96, kRowsMin = 288;
    if (in * out <= kBlockElements) return out;
    std::int64_t threads = 1;
    if constexpr (std::is_same_v<Context, kernels::CpuContext>) threads = context.threads();
    return std::max(kRowsMin * threads, kBlockElements / in / kTiles * kTiles);
  }

  template <class T>
  kernels::LinearGradient<T> Gradient(const GradientTarget<T>& target, std::int64_t rows, const T* x, T* dy,
                                      kernels::Activation activation, const T* y) const {
    return {.rows = rows,
            .in = in,
            .out = out,
            .x = x,
            .activation = activation,
            .y = y,
            .dy = dy,
            .weight_gradient = target.gradients + weight.offset,
            .bias_gradient = target.gradients + bias.offset,
            .beta = target.beta};
  }
};

// A norm's output, and what the norm's backward pass needs.
template <class T>
struct NormState {
  T* y = nullptr;  // [rows, width]
  Wide<T>* mean = nullptr;
  Wide<T>* inverse_deviation = nullptr;
};

struct LayerNorm {
  LayerNorm(Parameters& parameters, const std::string& name, std::int64_t columns)
      : width(columns),
        weight(parameters.Add({name + ".weight", {columns}, {InitKind::kOnes}, false})),
        bias(parameters.Add({name + ".bias", {columns}, {InitKind::kZeros}, false})) {}

  // Computes sum = a + b (just a if b is null), and state.y, the normalized sum.
  template <class Context, class T>
  void Forward(Context& context, const T* weights, std::int64_t rows, const T* a, const T* b, T* sum,
               const NormState<T>& state) const {
    ResidualLayerNorm(context, kernels::ResidualLayerNormArgs<T>{.rows = rows,
                                                                 .columns = width,
                                                                 .a = a,
                                                                 .b = b,
                                                                 .sum = sum,
                                                                 .gamma = weights + weight.offset,
                                                                 .beta = weights + bias.offset,
                                                                 .y = state.y,
                                                                 .mean = state.mean,
                                                                 .inverse_deviation = state.inverse_deviation});
  }

  // Computes dx = dx_beta * dx + the gradient of x, and the parameters' gradients. x is the array that was normalized.
  template <class Context, class T>
  void Backward(Context& context, const T* weights, const GradientTarget<T>& target, std::int64_t rows, const T* x,
                const NormState<T>& state, const T* dy, T* dx, Wide<T> dx_beta) const {
    LayerNormBackward(context, kernels::LayerNormGradient<T>{.rows = rows,
                                                             .columns = width,
                                                             .x = x,
                                                             .mean = state.mean,
                                                             .inverse_deviation = state.inverse_deviation,
                                                             .gamma = weights + weight.offset,
                                                             .dy = dy,
                                                             .dx = dx,
                                                             .dx_beta = dx_beta,
                                                             .gamma_gradient = target.gradients + weight.offset,
                                                             .beta_gradient = target.gradients + bias.offset,
                                                             .parameter_beta = target.beta});
  }

  std::int64_t width;
  Parameter weight, bias;
};

}  // namespace capstan::nn
