// Convnet, CreateConvnet: convolutions with ReLU and pooling, then linear layers. See model.h.
//
// Why:    this is a header, because the library instantiates it for CpuContext and each plug-in for CudaContext.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/pooling.h"
#include "worker/nn/arena.h"
#include "worker/nn/classifier.h"
#include "worker/nn/convolution.h"
#include "worker/nn/linear_stack.h"
#include "worker/nn/model.h"
#include "worker/nn/shape_check.h"

namespace capstan::nn {
namespace detail {

using kernels::Activation;

inline constexpr Window kFilter{.size = 3, .stride = 1, .padding = 1};
inline constexpr Window kPool{.size = 2, .stride = 2};

// A convolution with ReLU, then 2 x 2 max pooling.
struct Stage {
  Stage(Parameters& parameters, const std::string& name, const ImageSize& image, std::int64_t filters)
      : convolution(parameters, name, image, filters, kFilter, InputsInit(kFilter.size * kFilter.size * image.channels),
                    InputsInit(kFilter.size * kFilter.size * image.channels)),
        out(OutputOf(convolution.out, kPool, filters)) {}

  Convolution convolution;
  ImageSize out;
};

// A stage's outputs that the backward pass needs.
template <class T>
struct StageState {
  T* activated;
  T* pooled;
  std::int32_t* argmax;
};

template <class Context, class T>
class Convnet final : public Model<T> {
 public:
  Convnet(Context& context, const ConvnetShape& shape)
      : context_(context),
        arena_(context),
        shape_(shape),
        stages_(MakeStages(parameters_, shape)),
        linear_(context, parameters_, "linear", stages_.back().out.elements(), Widths(shape), shape.dropout),
        states_(stages_.size()) {}

  const std::vector<TensorSpec>& tensors() const override { return parameters_.tensors(); }
  std::size_t activation_bytes() const override { return arena_.bytes(); }
  void ReserveActivations(std::size_t bytes) override { arena_.Reserve(bytes); }
  std::size_t MeasureActivations(std::int64_t samples) override {
    samples_ = samples;
    return arena_.Measure([&](Arena<Context>& arena) { LayOut(arena); });
  }
  std::vector<kernels::Conv2dShape> Convolutions(std::int64_t samples) const override {
    std::vector<kernels::Conv2dShape> shapes;
    for (const Stage& stage : stages_) shapes.push_back(stage.convolution.Shape(samples));
    return shapes;
  }

  void Check(const Batch& batch) const override { CheckRows(batch, shape_.image.elements(), shape_.classes); }

  void StartTraining(const T* weights, Wide<T>* gradients, const Batch& batch, const StepKey& key,
                     const TrainOptions& options, const Hooks& hooks) override {
    Place(batch);
    Forward(weights, &key, hooks);
    ClassLoss(context_, batch, shape_.classes, options.gradient_scale, linear_.logits(), loss_);
    const Wide<T> beta = options.mode == GradientMode::kAdd ? Wide<T>(1) : Wide<T>(0);
    Backward(weights, {gradients, beta}, key, hooks);
  }

  void StartEvaluation(const T* weights, const Batch& batch, const Hooks& hooks,
                       const Wide<T>* /*statistics*/) override {
    Place(batch);
    Forward(weights, nullptr, hooks);
    ClassLoss(context_, batch, shape_.classes, 1.0, linear_.logits(), loss_);
  }

  LossSums Loss() override { return ReadLoss(context_, samples_, loss_); }

 private:
  static std::vector<Stage> MakeStages(Parameters& parameters, const ConvnetShape& shape) {
    std::vector<Stage> stages;
    ImageSize image = shape.image;
    for (const std::int64_t filters : shape.channels) {
      stages.emplace_back(parameters, "conv." + std::to_string(stages.size()), image, filters);
      image = stages.back().out;
    }
    return stages;
  }

  static std::vector<std::int64_t> Widths(const ConvnetShape& shape) {
    std::vector<std::int64_t> widths = shape.hidden;
    widths.push_back(shape.classes);
    return widths;
  }

  void Place(const Batch& batch) {
    samples_ = batch.samples;
    arena_.Place([&](Arena<Context>& arena) { LayOut(arena); });
    inputs_ = InputsAs(context_, batch, converted_);
  }

  // Takes memory from the arena for all arrays of a batch of samples_ samples.
  void LayOut(Arena<Context>& arena) {
    std::int64_t largest = 0;
    for (const Stage& stage : stages_) largest = std::max(largest, stage.convolution.out.elements());
    if (kConvertsInputs<T>) converted_ = arena.template Take<T>(samples_ * shape_.image.elements());
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const std::int64_t pooled = samples_ * stages_[i].out.elements();
      states_[i] = {arena.template Take<T>(samples_ * stages_[i].convolution.out.elements()),
                    arena.template Take<T>(pooled), arena.template Take<std::int32_t>(pooled)};
    }
    linear_.Place(arena, samples_);
    loss_ = arena.template Take<kernels::LossResult>(1);
    d_activated_ = arena.template Take<T>(samples_ * largest);
    d_pooled_ = arena.template Take<T>(samples_ * largest);
  }

  // Returns the input of stage `i`. If `i` is the number of stages, returns the input of the linear layers.
  const T* StageInput(std::size_t i) const { return i == 0 ? inputs_ : states_[i - 1].pooled; }

  kernels::ImageWindows Pooling(const Stage& stage) const { return WindowsOf(samples_, stage.convolution.out, kPool); }

  // Runs the forward pass. `key` null: no dropout.
  void Forward(const T* weights, const StepKey* key, const Hooks& hooks) {
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      const Convolution& convolution = stages_[i].convolution;
      NeedWeights(hooks, convolution.weight, convolution.last());
      convolution.Forward(context_, weights, samples_, StageInput(i), states_[i].activated, Activation::kRelu);
      MaxPool(context_, Pooling(stages_[i]), states_[i].activated, states_[i].pooled, states_[i].argmax);
    }
    linear_.Forward(weights, StageInput(stages_.size()), key, hooks);
  }

  void Backward(const T* weights, const GradientTarget<T>& target, const StepKey& key, const Hooks& hooks) {
    if (hooks.backward_begins) hooks.backward_begins();
    linear_.Backward(weights, target, StageInput(stages_.size()), d_pooled_, key, hooks);
    for (std::size_t i = stages_.size(); i-- > 0;) {
      const Convolution& convolution = stages_[i].convolution;
      MaxPoolBackward(context_, Pooling(stages_[i]), d_pooled_, states_[i].argmax, d_activated_);
      convolution.BackwardParameters(context_, target, samples_, StageInput(i), d_activated_, Activation::kRelu,
                                     states_[i].activated);
      GradientReady(hooks, convolution.weight, convolution.last());
      if (i > 0) convolution.BackwardInput(context_, weights, samples_, d_activated_, d_pooled_);
    }
  }

  Context& context_;
  Arena<Context> arena_;
  ConvnetShape shape_;
  Parameters parameters_;
  std::vector<Stage> stages_;
  LinearStack<Context, T> linear_;

  // The current batch.
  std::int64_t samples_ = 0;
  const T* inputs_ = nullptr;
  T* converted_ = nullptr;
  std::vector<StageState<T>> states_;
  T* d_activated_ = nullptr;
  T* d_pooled_ = nullptr;
  kernels::LossResult* loss_ = nullptr;
};

inline Status CheckConvnet(const ConvnetShape& shape) {
  CAPSTAN_RETURN_IF_ERROR(CheckImage(shape.image));
  CAPSTAN_RETURN_IF_ERROR(CheckSize("classes", shape.classes));
  const auto stages = static_cast<std::int64_t>(shape.channels.size());
  if (stages == 0) return Invalid("model.channels is empty; a convnet has a convolution or more, an mlp has none");
  const std::int64_t least = stages < 24 ? std::int64_t{1} << stages : kSizeMax;
  if (shape.image.height < least || shape.image.width < least) {
    return Invalid("an image of " + shape.image.ToString() + " is too small for model.channels with " +
                   std::to_string(stages) + " entries, each of which halves it; it must be at least " +
                   std::to_string(least) + " x " + std::to_string(least) + ", or the list shorter");
  }
  for (const std::int64_t filters : shape.channels) {
    CAPSTAN_RETURN_IF_ERROR(CheckSize("channels", filters, kChannelsMax));
  }
  CAPSTAN_RETURN_IF_ERROR(CheckSize("hidden layers", static_cast<std::int64_t>(shape.hidden.size()) + 1, kLayersMax));
  for (const std::int64_t width : shape.hidden) CAPSTAN_RETURN_IF_ERROR(CheckSize("hidden", width));
  return CheckDropout(shape.dropout);
}

}  // namespace detail

template <class T, class Context>
Result<std::unique_ptr<Model<T>>> CreateConvnet(Context& context, const ConvnetShape& shape) {
  CAPSTAN_RETURN_IF_ERROR(detail::CheckConvnet(shape));
  return std::unique_ptr<Model<T>>(std::make_unique<detail::Convnet<Context, T>>(context, shape));
}

}  // namespace capstan::nn
