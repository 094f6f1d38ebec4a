// Convolution: a convolution layer. It holds the offsets of its parameters and the size of an image, but no data of a
// batch.
//
// Kind:   value.
// Shapes: x [samples, in.height, in.width, in.channels], y likewise of `out`; weight [filters, window, window,
//         in.channels]: torch.nn.Conv2d's with the channels last.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/bias_activation.h"
#include "kernels/conv2d.h"
#include "worker/nn/layers.h"
#include "worker/nn/model.h"
#include "worker/nn/parameters.h"

namespace capstan::nn {

// A square window (of a filter or of pooling) that moves over the image.
struct Window {
  std::int64_t size = 1, stride = 1, padding = 0;
};

inline kernels::ImageWindows WindowsOf(std::int64_t samples, const ImageSize& image, const Window& window) {
  return {.samples = samples,
          .height = image.height,
          .width = image.width,
          .channels = image.channels,
          .window_height = window.size,
          .window_width = window.size,
          .stride = window.stride,
          .padding = window.padding};
}

// Returns the size of the output when the window moves over `image`, with `channels` numbers at each place.
inline ImageSize OutputOf(const ImageSize& image, const Window& window, std::int64_t channels) {
  const kernels::ImageWindows windows = WindowsOf(1, image, window);
  return {windows.out_height(), windows.out_width(), channels};
}

struct Convolution {
  // `bias_init` nullopt: the layer has no bias.
  Convolution(Parameters& parameters, const std::string& name, const ImageSize& image, std::int64_t filters,
              const Window& moved, Init weight_init, std::optional<Init> bias_init)
      : in(image),
        out(OutputOf(image, moved, filters)),
        window(moved),
        weight(parameters.Add({name + ".weight", {filters, moved.size, moved.size, image.channels}, weight_init})) {
    if (bias_init) bias = parameters.Add({name + ".bias", {filters}, *bias_init, false});
  }

  // Returns the layer's last tensor.
  Parameter last() const { return bias.value_or(weight); }

  kernels::Conv2dShape Shape(std::int64_t samples) const { return {WindowsOf(samples, in, window), out.channels}; }

  // Computes y = activation(convolution of x + bias).
  template <class Context, class T>
  void Forward(Context& context, const T* weights, std::int64_t samples, const T* x, T* y,
               kernels::Activation activation = kernels::Activation::kNone) const {
    Conv2d(context, kernels::Conv2dArgs<T>{.shape = Shape(samples),
                                           .x = x,
                                           .filter = weights + weight.offset,
                                           .bias = bias ? weights + bias->offset : nullptr,
                                           .y = y,
                                           .activation = activation});
  }

  // Computes the gradients of weight and, if there is one, of bias. With a bias, dy is first multiplied by the
  // activation's derivative (none or ReLU), in place; `y` is the layer's output. Without a bias `activation` and `y`
  // are ignored.
  template <class Context, class T>
  void BackwardParameters(Context& context, const GradientTarget<T>& target, std::int64_t samples, const T* x, T* dy,
                          kernels::Activation activation = kernels::Activation::kNone, const T* y = nullptr) const {
    if (bias) {
      BiasActivationBackward(context,
                             kernels::BiasActivationGradient<T>{.rows = samples * out.height * out.width,
                                                                .columns = out.channels,
                                                                .activation = activation,
                                                                .x = y,
                                                                .dy = dy,
                                                                .bias_gradient = target.gradients + bias->offset,
                                                                .beta = target.beta});
    }
    Conv2dFilterBackward(context, kernels::Conv2dFilterGradient<T>{.shape = Shape(samples),
                                                                   .x = x,
                                                                   .dy = dy,
                                                                   .filter_gradient = target.gradients + weight.offset,
                                                                   .beta = target.beta});
  }

  // Computes dx = beta * dx + the gradient of x.
  template <class Context, class T>
  void BackwardInput(Context& context, const T* weights, std::int64_t samples, const T* dy, T* dx,
                     Wide<T> beta = 0) const {
    Conv2dInputBackward(
        context, kernels::Conv2dInputGradient<T>{
                     .shape = Shape(samples), .filter = weights + weight.offset, .dy = dy, .dx = dx, .beta = beta});
  }

  ImageSize in, out;
  Window window;
  Parameter weight;
  std::optional<Parameter> bias;
};

}  // namespace capstan::nn
