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

template <class Context, class Real>
class Mlp final : public Model<Real> {
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

  LossSums Train(const Real* weights, Real* gradients, const Batch& batch, const StepKey& key,
                 const TrainOptions& options, const Hooks& hooks) override {
    Place(batch);
    Forward(weights, batch, &key, hooks);
    const LossSums sums = Loss(batch, static_cast<Real>(options.gradient_scale));
    const Real beta = options.mode == GradientMode::kAdd ? Real(1) : Real(0);
    Backward(weights, {gradients, beta}, batch, key, hooks);
    return sums;
  }

  LossSums Evaluate(const Real* weights, const Batch& batch, const Hooks& hooks) override {
    Place(batch);
    Forward(weights, batch, nullptr, hooks);
    return Loss(batch, Real(1));
  }

  Result<std::span<const Real>> NextTokenLogits(const Real*, std::span<const std::int32_t>) override {
    return Unsupported("an mlp has no next token; only a gpt has");
  }

 private:
  static constexpr bool kConvertsInputs = !std::is_same_v<Real, float>;

  void Place(const Batch& batch) {
    const auto samples = static_cast<std::size_t>(batch.samples);
    CAPSTAN_CHECK(batch.samples >= 1 && batch.targets.size() == samples);
    CAPSTAN_CHECK(batch.inputs.size() == samples * static_cast<std::size_t>(shape_.features));
    for (const std::int32_t target : batch.targets) CAPSTAN_CHECK(target >= 0 && target < shape_.classes);
    std::int64_t widest = 0;
    for (const Linear& layer : layers_) widest = std::max(widest, layer.out);
    arena_.Place([&](Arena<Context>& arena) {
      for (std::size_t i = 0; i < layers_.size(); ++i) {
        outputs_[i] = arena.template Take<Real>(batch.samples * layers_[i].out);
      }
      gradient_a_ = arena.template Take<Real>(batch.samples * widest);
      gradient_b_ = arena.template Take<Real>(batch.samples * widest);
      if (kConvertsInputs) inputs_ = arena.template Take<Real>(batch.samples * shape_.features);
    });
    if (kConvertsInputs) std::copy(batch.inputs.begin(), batch.inputs.end(), inputs_);
  }

  const Real* Inputs(const Batch& batch) const {
    if constexpr (std::is_same_v<Real, float>) {
      return batch.inputs.data();
    } else {
      return inputs_;
    }
  }

  // key null: no dropout.
  void Forward(const Real* weights, const Batch& batch, const StepKey* key, const Hooks& hooks) {
    const Real* x = Inputs(batch);
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

  void Drop(const StepKey& key, std::size_t layer, std::int64_t samples, Real* x) {
    Dropout(context_, MaskOf(key, layer, shape_.dropout), samples * layers_[layer].out, x);
  }

  // The logits become their gradient.
  LossSums Loss(const Batch& batch, Real scale) {
    const kernels::LossResult result =
        SoftmaxCrossEntropy(context_, kernels::SoftmaxCrossEntropyArgs<Real>{.rows = batch.samples,
                                                                             .classes = shape_.classes,
                                                                             .stride = shape_.classes,
                                                                             .logits = outputs_.back(),
                                                                             .targets = batch.targets.data(),
                                                                             .gradient_scale = scale});
    return {result.loss, batch.samples, result.correct};
  }

  void Backward(const Real* weights, const GradientTarget<Real>& target, const Batch& batch, const StepKey& key,
                const Hooks& hooks) {
    if (hooks.backward_begins) hooks.backward_begins();
    Real* dy = outputs_.back();
    Real* dx = gradient_a_;
    for (std::size_t i = layers_.size(); i-- > 0;) {
      const Linear& layer = layers_[i];
      const bool last = i + 1 == layers_.size();
      if (!last) Drop(key, i, batch.samples, dy);
      const Real* x = i > 0 ? outputs_[i - 1] : Inputs(batch);
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
  std::vector<Real*> outputs_;  // of each layer, after ReLU and dropout
  Real* gradient_a_ = nullptr;
  Real* gradient_b_ = nullptr;
  Real* inputs_ = nullptr;  // the batch's, as Real
};

}  // namespace

template <class Real>
Result<std::unique_ptr<Model<Real>>> CreateMlp(kernels::CpuContext& context, const MlpShape& shape) {
  CAPSTAN_RETURN_IF_ERROR(CheckSize("features", shape.features));
  CAPSTAN_RETURN_IF_ERROR(CheckSize("classes", shape.classes));
  CAPSTAN_RETURN_IF_ERROR(CheckSize("hidden layers", static_cast<std::int64_t>(shape.hidden.size()) + 1, kLayersMax));
  for (const std::int64_t width : shape.hidden) CAPSTAN_RETURN_IF_ERROR(CheckSize("hidden", width));
  CAPSTAN_RETURN_IF_ERROR(CheckDropout(shape.dropout));
  return std::unique_ptr<Model<Real>>(std::make_unique<Mlp<kernels::CpuContext, Real>>(context, shape));
}

template Result<std::unique_ptr<Model<float>>> CreateMlp(kernels::CpuContext&, const MlpShape&);
template Result<std::unique_ptr<Model<double>>> CreateMlp(kernels::CpuContext&, const MlpShape&);

}  // namespace capstan::nn
