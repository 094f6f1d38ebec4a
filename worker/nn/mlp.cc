#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>

#include "kernels/dropout.h"
#include "kernels/softmax_cross_entropy.h"
#include "worker/nn/arena.h"
#include "worker/nn/dropout_key.h"
#include "worker/nn/layers.h"
#include "worker/nn/model.h"
#include "worker/nn/shape_check.h"

namespace capstan::nn {
namespace {

using kernels::Activation;

// The defaults of torch.nn.Linear: uniform within 1 / sqrt(inputs), for weight and bias.
Init LinearInit(std::int64_t inputs) {
  return {InitKind::kUniform, static_cast<float>(1.0 / std::sqrt(static_cast<double>(inputs)))};
}

template <class Context, class T>
class Mlp final : public Model<T> {
 public:
  Mlp(Context& context, const MlpShape& shape) : context_(context), arena_(context), shape_(shape) {
    std::int64_t in = shape.features;
    const auto add = [&](std::int64_t out) {
      layers_.emplace_back(parameters_, "layers." + std::to_string(layers_.size()), in, out, LinearInit(in),
                           LinearInit(in));
      in = out;
    };
    for (const std::int64_t out : shape.hidden) add(out);
    add(shape.classes);
    outputs_.resize(layers_.size());
  }

  const std::vector<TensorSpec>& tensors() const override { return parameters_.tensors(); }
  std::size_t activation_bytes() const override { return arena_.bytes(); }

  LossSums Train(const T* weights, Wide<T>* gradients, const Batch& batch, const StepKey& key,
                 const TrainOptions& options, const Hooks& hooks) override {
    Place(batch);
    Forward(weights, batch, &key, hooks);
    const LossSums sums = Loss(batch, static_cast<Wide<T>>(options.gradient_scale));
    const Wide<T> beta = options.mode == GradientMode::kAdd ? Wide<T>(1) : Wide<T>(0);
    Backward(weights, {gradients, beta}, batch, key, hooks);
    return sums;
  }

  LossSums Evaluate(const T* weights, const Batch& batch, const Hooks& hooks) override {
    Place(batch);
    Forward(weights, batch, nullptr, hooks);
    return Loss(batch, Wide<T>(1));
  }

  Result<std::span<const T>> NextTokenLogits(const T*, std::span<const std::int32_t>) override {
    return Unsupported("an mlp has no next token; only a gpt has");
  }

 private:
  static constexpr bool kConvertsInputs = !std::is_same_v<T, float>;

  void Place(const Batch& batch) {
    const auto samples = static_cast<std::size_t>(batch.samples);
    CAPSTAN_CHECK(batch.samples >= 1 && batch.targets.size() == samples);
    CAPSTAN_CHECK(batch.inputs.size() == samples * static_cast<std::size_t>(shape_.features));
    for (const std::int32_t target : batch.targets) CAPSTAN_CHECK(target >= 0 && target < shape_.classes);
    std::int64_t widest = 0;
    for (const Linear& layer : layers_) widest = std::max(widest, layer.out);
    arena_.Place([&](Arena<Context>& arena) {
      for (std::size_t i = 0; i < layers_.size(); ++i) {
        outputs_[i] = arena.template Take<T>(batch.samples * layers_[i].out);
      }
      gradient_a_ = arena.template Take<T>(batch.samples * widest);
      gradient_b_ = arena.template Take<T>(batch.samples * widest);
      if (kConvertsInputs) inputs_ = arena.template Take<T>(batch.samples * shape_.features);
    });
    if constexpr (kIs16Bit<T>) {
      NarrowAll(batch.inputs, inputs_);
    } else if constexpr (kConvertsInputs) {
      std::copy(batch.inputs.begin(), batch.inputs.end(), inputs_);
    }
  }

  const T* Inputs(const Batch& batch) const {
    if constexpr (std::is_same_v<T, float>) {
      return batch.inputs.data();
    } else {
      return inputs_;
    }
  }

  // key null: no dropout.
  void Forward(const T* weights, const Batch& batch, const StepKey* key, const Hooks& hooks) {
    const T* x = Inputs(batch);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Linear& layer = layers_[i];
      NeedWeights(hooks, layer.weight, layer.bias);
      if (i + 1 == layers_.size()) {
        layer.Forward(context_, weights, batch.samples, x, outputs_[i]);
      } else {
        layer.Forward(context_, weights, batch.samples, x, outputs_[i], Activation::kRelu, outputs_[i]);
        if (key != nullptr) Drop(*key, i, batch.samples, outputs_[i]);
      }
      x = outputs_[i];
    }
  }

  void Drop(const StepKey& key, std::size_t layer, std::int64_t samples, T* x) {
    Dropout(context_, MaskOf(key, layer, shape_.dropout), samples * layers_[layer].out, x);
  }

  // The logits become their gradient.
  LossSums Loss(const Batch& batch, Wide<T> scale) {
    const kernels::LossResult result =
        SoftmaxCrossEntropy(context_, kernels::SoftmaxCrossEntropyArgs<T>{.rows = batch.samples,
                                                                          .classes = shape_.classes,
                                                                          .stride = shape_.classes,
                                                                          .logits = outputs_.back(),
                                                                          .targets = batch.targets.data(),
                                                                          .gradient_scale = scale});
    return {result.loss, batch.samples, result.correct};
  }

  void Backward(const T* weights, const GradientTarget<T>& target, const Batch& batch, const StepKey& key,
                const Hooks& hooks) {
    if (hooks.backward_begins) hooks.backward_begins();
    T* dy = outputs_.back();
    T* dx = gradient_a_;
    for (std::size_t i = layers_.size(); i-- > 0;) {
      const Linear& layer = layers_[i];
      const bool last = i + 1 == layers_.size();
      if (!last) Drop(key, i, batch.samples, dy);
      const T* x = i > 0 ? outputs_[i - 1] : Inputs(batch);
      layer.BackwardParameters(context_, target, batch.samples, x, dy, last ? Activation::kNone : Activation::kRelu,
                               outputs_[i]);
      GradientReady(hooks, layer.weight, layer.bias);
      if (i == 0) break;
      layer.BackwardInput(context_, weights, batch.samples, dy, dx);
      dy = dx;
      dx = dy == gradient_a_ ? gradient_b_ : gradient_a_;
    }
  }

  Context& context_;
  Arena<Context> arena_;
  MlpShape shape_;
  Parameters parameters_;
  std::vector<Linear> layers_;

  // Of the batch in work.
  std::vector<T*> outputs_;  // of each layer, after ReLU and dropout
  T* gradient_a_ = nullptr;
  T* gradient_b_ = nullptr;
  T* inputs_ = nullptr;  // the batch's, as T
};

}  // namespace

template <class T>
Result<std::unique_ptr<Model<T>>> CreateMlp(kernels::CpuContext& context, const MlpShape& shape) {
  CAPSTAN_RETURN_IF_ERROR(CheckSize("features", shape.features));
  CAPSTAN_RETURN_IF_ERROR(CheckSize("classes", shape.classes));
  CAPSTAN_RETURN_IF_ERROR(CheckSize("hidden layers", static_cast<std::int64_t>(shape.hidden.size()) + 1, kLayersMax));
  for (const std::int64_t width : shape.hidden) CAPSTAN_RETURN_IF_ERROR(CheckSize("hidden", width));
  CAPSTAN_RETURN_IF_ERROR(CheckDropout(shape.dropout));
  return std::unique_ptr<Model<T>>(std::make_unique<Mlp<kernels::CpuContext, T>>(context, shape));
}

template Result<std::unique_ptr<Model<float>>> CreateMlp(kernels::CpuContext&, const MlpShape&);
template Result<std::unique_ptr<Model<double>>> CreateMlp(kernels::CpuContext&, const MlpShape&);
template Result<std::unique_ptr<Model<Bf16>>> CreateMlp(kernels::CpuContext&, const MlpShape&);
template Result<std::unique_ptr<Model<Half>>> CreateMlp(kernels::CpuContext&, const MlpShape&);

}  // namespace capstan::nn
