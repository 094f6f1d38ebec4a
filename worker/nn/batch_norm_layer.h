// BatchNormLayer: batch norm, then an optional residual addition and activation. It holds the offsets of its parameters
// and running statistics, but no data of a batch.
//
// Kind:   value.
// Shapes: x [rows, channels]; an image's pixels are rows.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/batch_norm.h"
#include "worker/nn/layers.h"
#include "worker/nn/parameters.h"

namespace capstan::nn {

// Where the batch's statistics go: each element becomes beta * old + share * new, where new is the rows' mean or
// unbiased variance. `gradients` null: they are not written.
template <class T>
struct StatisticsTarget {
  Wide<T>* gradients = nullptr;  // flat array, laid out as the parameters' gradients
  Wide<T> beta = 0, share = 1;
};

struct BatchNormLayer {
  BatchNormLayer(Parameters& parameters, const std::string& name, std::int64_t width)
      : channels(width),
        weight(parameters.Add({name + ".weight", {width}, {InitKind::kOnes}, false})),
        bias(parameters.Add({name + ".bias", {width}, {InitKind::kZeros}, false})),
        running_mean(AddStatistic(parameters, name + ".running_mean", InitKind::kZeros)),
        running_variance(AddStatistic(parameters, name + ".running_var", InitKind::kOnes)) {}

  // Returns the layer's last tensor; `weight` is the first.
  Parameter last() const { return running_variance; }

  // Computes state.y = activation(normalized x * weight + bias + residual), with mean and variance of these rows.
  template <class Context, class T>
  void Forward(Context& context, const T* weights, const StatisticsTarget<T>& target, std::int64_t rows, const T* x,
               const T* residual, kernels::Activation activation, const NormState<T>& state) const {
    kernels::BatchNormArgs<T> args = Args(weights, rows, x, residual, activation, state.y);
    args.mean = state.mean;
    args.inverse_deviation = state.inverse_deviation;
    if (target.gradients != nullptr) {
      args.mean_average = target.gradients + running_mean.offset;
      args.variance_average = target.gradients + running_variance.offset;
    }
    args.share = target.share;
    args.average_beta = target.beta;
    BatchNorm(context, args);
  }

  // Computes y in the same way, but with the running mean and variance, which are in the flat array `statistics`.
  template <class Context, class T>
  void Evaluate(Context& context, const T* weights, const Wide<T>* statistics, std::int64_t rows, const T* x,
                const T* residual, kernels::Activation activation, T* y) const {
    BatchNormEvaluate(context, Args(weights, rows, x, residual, activation, y), statistics + running_mean.offset,
                      statistics + running_variance.offset);
  }

  // Computes the gradients. dy becomes the residual's gradient, in place. dx may be dy if the residual's gradient is
  // not needed.
  template <class Context, class T>
  void Backward(Context& context, const T* weights, const GradientTarget<T>& target, std::int64_t rows, const T* x,
                const NormState<T>& state, kernels::Activation activation, T* dy, T* dx) const {
    BatchNormBackward(context, kernels::BatchNormGradient<T>{.rows = rows,
                                                             .channels = channels,
                                                             .x = x,
                                                             .mean = state.mean,
                                                             .inverse_deviation = state.inverse_deviation,
                                                             .gamma = weights + weight.offset,
                                                             .activation = activation,
                                                             .y = state.y,
                                                             .dy = dy,
                                                             .dx = dx,
                                                             .gamma_gradient = target.gradients + weight.offset,
                                                             .beta_gradient = target.gradients + bias.offset,
                                                             .parameter_beta = target.beta});
  }

  std::int64_t channels;
  Parameter weight, bias, running_mean, running_variance;

 private:
  Parameter AddStatistic(Parameters& parameters, const std::string& name, InitKind init) const {
    TensorSpec spec{name, {channels}, {init}, false};
    spec.kind = TensorKind::kStatistic;
    return parameters.Add(spec);
  }

  template <class T>
  kernels::BatchNormArgs<T> Args(const T* weights, std::int64_t rows, const T* x, const T* residual,
                                 kernels::Activation activation, T* y) const {
    return {.rows = rows,
            .channels = channels,
            .x = x,
            .gamma = weights + weight.offset,
            .beta = weights + bias.offset,
            .residual = residual,
            .activation = activation,
            .y = y};
  }
};

}  // namespace capstan::nn
