// LinearStack: linear layers with ReLU between them, and dropout after each ReLU.
//
// Kind:   owned by its model; its arrays are in the model's arena.
// Shapes: x [samples, in]; logits [samples, last width].
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/dropout.h"
#include "worker/nn/arena.h"
#include "worker/nn/dropout_key.h"
#include "worker/nn/layers.h"
#include "worker/nn/model.h"

namespace capstan::nn {

// Returns the default init of torch.nn.Linear and torch.nn.Conv2d, for weight and bias: uniform in [-b, b) with
// b = 1 / sqrt(inputs), where `inputs` is the number of inputs of one output.
inline Init InputsInit(std::int64_t inputs) {
  return {InitKind::kUniform, static_cast<float>(1.0 / std::sqrt(static_cast<double>(inputs)))};
}

template <class Context, class T>
class LinearStack {
 public:
  // Layers are named `name`.0, `name`.1, ...
  LinearStack(Context& context, Parameters& parameters, const std::string& name, std::int64_t in,
              const std::vector<std::int64_t>& widths, double dropout)
      : context_(context), dropout_(dropout) {
    for (const std::int64_t out : widths) {
      layers_.emplace_back(parameters, name + "." + std::to_string(layers_.size()), in, out, InputsInit(in),
                           InputsInit(in));
      in = out;
      widest_ = std::max(widest_, out);
    }
    outputs_.resize(layers_.size());
  }

  void Place(Arena<Context>& arena, std::int64_t samples) {
    samples_ = samples;
    for (std::size_t i = 0; i < layers_.size(); ++i) outputs_[i] = arena.template Take<T>(samples * layers_[i].out);
    gradient_a_ = arena.template Take<T>(samples * widest_);
    gradient_b_ = arena.template Take<T>(samples * widest_);
  }

  T* logits() const { return outputs_.back(); }

  // Runs the forward pass. `key` null: no dropout.
  void Forward(const T* weights, const T* x, const StepKey* key, const Hooks& hooks) {
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Linear& layer = layers_[i];
      NeedWeights(hooks, layer.weight, layer.bias);
      if (i + 1 == layers_.size()) {
        layer.Forward(context_, weights, samples_, x, outputs_[i]);
      } else {
        layer.Forward(context_, weights, samples_, x, outputs_[i], kernels::Activation::kRelu, outputs_[i]);
        if (key != nullptr) Drop(*key, i, outputs_[i]);
      }
      x = outputs_[i];
    }
  }

  // Runs the backward pass. logits() must hold the gradient of the logits. If dx is not null, it receives the gradient
  // of `x`.
  void Backward(const T* weights, const GradientTarget<T>& target, const T* x, T* dx, const StepKey& key,
                const Hooks& hooks) {
    T* dy = outputs_.back();
    T* free = gradient_a_;
    for (std::size_t i = layers_.size(); i-- > 0;) {
      const Linear& layer = layers_[i];
      const bool last = i + 1 == layers_.size();
      if (!last) Drop(key, i, dy);
      const kernels::Activation activation = last ? kernels::Activation::kNone : kernels::Activation::kRelu;
      const T* const input = i > 0 ? outputs_[i - 1] : x;
      if (i == 0 && dx == nullptr) {  // nothing is computed afterwards that would hide the sending
        return layer.BackwardParametersInParts(context_, target, samples_, input, dy, activation, outputs_[i], hooks);
      }
      layer.BackwardParameters(context_, target, samples_, input, dy, activation, outputs_[i]);
      GradientReady(hooks, layer.weight, layer.bias);
      T* d_input = i == 0 ? dx : free;
      layer.BackwardInput(context_, weights, samples_, dy, d_input);
      dy = d_input;
      free = dy == gradient_a_ ? gradient_b_ : gradient_a_;
    }
  }

 private:
  void Drop(const StepKey& key, std::size_t layer, T* x) {
    Dropout(context_, MaskOf(key, layer, dropout_), samples_ * layers_[layer].out, x);
  }

  Context& context_;
  const double dropout_;
  std::vector<Linear> layers_;
  std::int64_t widest_ = 0;

  // The current batch.
  std::int64_t samples_ = 0;
  std::vector<T*> outputs_;  // output of each layer, after ReLU and dropout (the last layer has neither)
  T* gradient_a_ = nullptr;
  T* gradient_b_ = nullptr;
};

}  // namespace capstan::nn
