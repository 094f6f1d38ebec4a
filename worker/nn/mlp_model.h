// Mlp, CreateMlp: linear layers with ReLU between them. See model.h.
//
// Why:    this is a header, because the library instantiates it for CpuContext and each plug-in for CudaContext.
#pragma once

#include <string>
#include <vector>

#include "worker/nn/arena.h"
#include "worker/nn/classifier.h"
#include "worker/nn/linear_stack.h"
#include "worker/nn/model.h"
#include "worker/nn/shape_check.h"

namespace capstan::nn {
namespace detail {

inline std::vector<std::int64_t> WidthsOf(const MlpShape& shape) {
  std::vector<std::int64_t> widths = shape.hidden;
  widths.push_back(shape.classes);
  return widths;
}

template <class Context, class T>
class Mlp final : public Model<T> {
 public:
  Mlp(Context& context, const MlpShape& shape)
      : context_(context),
        arena_(context),
        shape_(shape),
        layers_(context, parameters_, "layers", shape.features, WidthsOf(shape), shape.dropout) {}

  const std::vector<TensorSpec>& tensors() const override { return parameters_.tensors(); }
  std::size_t activation_bytes() const override { return arena_.bytes(); }
  void ReserveActivations(std::size_t bytes) override { arena_.Reserve(bytes); }
  std::size_t MeasureActivations(std::int64_t samples) override {
    return arena_.Measure([&](Arena<Context>& arena) { LayOut(arena, samples); });
  }

  void Check(const Batch& batch) const override { CheckRows(batch, shape_.features, shape_.classes); }

  void StartTraining(const T* weights, Wide<T>* gradients, const Batch& batch, const StepKey& key,
                     const TrainOptions& options, const Hooks& hooks) override {
    const T* const x = Place(batch);
    layers_.Forward(weights, x, &key, hooks);
    ClassLoss(context_, batch, shape_.classes, options.gradient_scale, layers_.logits(), loss_);
    if (hooks.backward_begins) hooks.backward_begins();
    const Wide<T> beta = options.mode == GradientMode::kAdd ? Wide<T>(1) : Wide<T>(0);
    layers_.Backward(weights, {gradients, beta}, x, nullptr, key, hooks);
  }

  void StartEvaluation(const T* weights, const Batch& batch, const Hooks& hooks,
                       const Wide<T>* /*statistics*/) override {
    layers_.Forward(weights, Place(batch), nullptr, hooks);
    ClassLoss(context_, batch, shape_.classes, 1, layers_.logits(), loss_);
  }

  LossSums Loss() override { return ReadLoss(context_, samples_, loss_); }

 private:
  // Places the arrays for the batch; returns the batch's inputs in type T.
  const T* Place(const Batch& batch) {
    samples_ = batch.samples;
    return InputsAs(context_, batch, arena_.Place([&](Arena<Context>& arena) { return LayOut(arena, batch.samples); }));
  }

  // Returns the array for converted inputs; null if they are not converted.
  T* LayOut(Arena<Context>& arena, std::int64_t samples) {
    layers_.Place(arena, samples);
    loss_ = arena.template Take<kernels::LossResult>(1);
    return kConvertsInputs<T> ? arena.template Take<T>(samples * shape_.features) : nullptr;
  }

  Context& context_;
  Arena<Context> arena_;
  const MlpShape shape_;
  Parameters parameters_;
  LinearStack<Context, T> layers_;

  // The current batch.
  std::int64_t samples_ = 0;
  kernels::LossResult* loss_ = nullptr;
};

}  // namespace detail

template <class T, class Context>
Result<std::unique_ptr<Model<T>>> CreateMlp(Context& context, const MlpShape& shape) {
  CAPSTAN_RETURN_IF_ERROR(CheckSize("features", shape.features));
  CAPSTAN_RETURN_IF_ERROR(CheckSize("classes", shape.classes));
  CAPSTAN_RETURN_IF_ERROR(CheckSize("hidden layers", static_cast<std::int64_t>(shape.hidden.size()) + 1, kLayersMax));
  for (const std::int64_t width : shape.hidden) CAPSTAN_RETURN_IF_ERROR(CheckSize("hidden", width));
  CAPSTAN_RETURN_IF_ERROR(CheckDropout(shape.dropout));
  return std::unique_ptr<Model<T>>(std::make_unique<detail::Mlp<Context, T>>(context, shape));
}

}  // namespace capstan::nn
