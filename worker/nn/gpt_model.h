// Gpt, CreateGpt: GPT-2. See model.h.
//
// Why:    this is a header, because the library instantiates it for CpuContext and each plug-in for CudaContext.
#pragma once

#include <cmath>
#include <string>

#include "kernels/attention.h"
#include "kernels/axpby.h"
#include "kernels/dropout.h"
#include "kernels/embedding.h"
#include "kernels/softmax_cross_entropy.h"
#include "worker/nn/arena.h"
#include "worker/nn/classifier.h"
#include "worker/nn/dropout_key.h"
#include "worker/nn/layers.h"
#include "worker/nn/model.h"
#include "worker/nn/shape_check.h"

namespace capstan::nn {
namespace detail {

using kernels::Activation;

inline constexpr Init kZeros{InitKind::kZeros, 0};
inline constexpr Init kNormal{InitKind::kNormal, 0.02F};

// Returns the init of a branch's last linear layer. The outputs of all branches, two per layer, are added up, so the
// standard deviation is divided by the square root of their number.
inline Init BranchEnd(std::int64_t layers) {
  return {InitKind::kNormal, static_cast<float>(0.02 / std::sqrt(2.0 * static_cast<double>(layers)))};
}

struct Layer {
  Layer(Parameters& parameters, const std::string& name, const GptShape& s)
      : norm_1(parameters, name + ".ln_1", s.width),
        qkv(parameters, name + ".attn.c_attn", s.width, 3 * s.width, kNormal, kZeros),
        projection(parameters, name + ".attn.c_proj", s.width, s.width, BranchEnd(s.layers), kZeros),
        norm_2(parameters, name + ".ln_2", s.width),
        expand(parameters, name + ".mlp.c_fc", s.width, 4 * s.width, kNormal, kZeros),
        contract(parameters, name + ".mlp.c_proj", 4 * s.width, s.width, BranchEnd(s.layers), kZeros) {}

  LayerNorm norm_1;
  Linear qkv, projection;
  LayerNorm norm_2;
  Linear expand, contract;
};

// A layer's arrays that the backward pass needs. `in` is the residual stream before the attention branch, `middle` the
// one before the mlp branch. With recomputation each layer has its own `in`, and all layers share the other arrays.
template <class T>
struct LayerState {
  T* in;
  NormState<T> norm_1;
  T* qkv;
  T* attended;
  Wide<T>* log_sum;
  T* middle;
  NormState<T> norm_2;
  T* expanded;   // before GELU
  T* activated;  // after GELU
};

template <class T>
struct State {
  std::int64_t samples, length, rows;  // rows = samples * length
  std::vector<LayerState<T>> layers;
  T* branch;  // a branch's output, before it is added to the residual stream
  T* out;     // the residual stream at the end
  NormState<T> norm;
  T* logits;  // [rows, vocabulary]; becomes their gradient
  kernels::LossResult* loss;
  // Backward pass.
  T* d_stream;  // gradient of the residual stream
  T* d_narrow;  // [rows, width]
  T* d_wide;    // [rows, 4 width]
};

template <class Context, class T>
class Gpt final : public Model<T> {
 public:
  Gpt(Context& context, const GptShape& shape)
      : context_(context),
        arena_(context),
        shape_(shape),
        tokens_(parameters_.Add({"wte.weight", {shape.vocabulary, shape.width}, kNormal, true})),
        positions_(parameters_.Add({"wpe.weight", {shape.context, shape.width}, kNormal, true})),
        layers_(MakeLayers(parameters_, shape)),
        norm_(parameters_, "ln_f", shape.width) {
    state_.layers.resize(layers_.size());
  }

  const std::vector<TensorSpec>& tensors() const override { return parameters_.tensors(); }
  std::size_t activation_bytes() const override { return arena_.bytes(); }
  void ReserveActivations(std::size_t bytes) override { arena_.Reserve(bytes); }
  std::size_t MeasureActivations(std::int64_t samples) override {
    return arena_.Measure([&](Arena<Context>& arena) { LayOut(arena, samples * shape_.context, Purpose::kTrain); });
  }

  void Check(const Batch& batch) const override {
    const auto count = static_cast<std::size_t>(batch.samples * shape_.context);
    CAPSTAN_CHECK(batch.samples >= 1 && batch.tokens.size() == count && batch.targets.size() == count);
    for (const std::int32_t token : batch.tokens) CAPSTAN_CHECK(token >= 0 && token < shape_.vocabulary);
    for (const std::int32_t target : batch.targets) CAPSTAN_CHECK(target >= 0 && target < shape_.vocabulary);
  }

  void StartTraining(const T* weights, Wide<T>* gradients, const Batch& batch, const StepKey& key,
                     const TrainOptions& options, const Hooks& hooks) override {
    Place(batch.samples, shape_.context, Purpose::kTrain);
    Forward(weights, batch.tokens, &key, hooks);
    Head(weights, state_.norm.y, state_.rows);
    HeadLoss(batch.targets, static_cast<Wide<T>>(options.gradient_scale));
    const Wide<T> beta = options.mode == GradientMode::kAdd ? Wide<T>(1) : Wide<T>(0);
    Backward(weights, {gradients, beta}, batch.tokens, key, hooks);
  }

  void StartEvaluation(const T* weights, const Batch& batch, const Hooks& hooks,
                       const Wide<T>* /*statistics*/) override {
    Place(batch.samples, shape_.context, Purpose::kEvaluate);
    Forward(weights, batch.tokens, nullptr, hooks);
    Head(weights, state_.norm.y, state_.rows);
    HeadLoss(batch.targets, Wide<T>(1));
  }

  LossSums Loss() override { return ReadLoss(context_, state_.rows, state_.loss); }

  Result<std::span<const T>> NextTokenLogits(const T* weights, std::span<const std::int32_t> tokens) override {
    const auto length = static_cast<std::int64_t>(tokens.size());
    if (length < 1 || length > shape_.context) {
      return Invalid("a text of " + std::to_string(length) + " tokens; the model's context is 1 to " +
                     std::to_string(shape_.context));
    }
    for (const std::int32_t token : tokens) {
      if (token < 0 || token >= shape_.vocabulary) return Invalid("token " + std::to_string(token) + " is unknown");
    }
    Place(1, length, Purpose::kEvaluate);
    Forward(weights, tokens, nullptr, {});
    Head(weights, state_.norm.y + (length - 1) * shape_.width, 1);
    return std::span<const T>(state_.logits, static_cast<std::size_t>(shape_.vocabulary));
  }

 private:
  enum class Purpose : std::uint8_t { kTrain, kEvaluate };

  static std::vector<Layer> MakeLayers(Parameters& parameters, const GptShape& shape) {
    std::vector<Layer> layers;
    for (std::int64_t i = 0; i < shape.layers; ++i) layers.emplace_back(parameters, "h." + std::to_string(i), shape);
    return layers;
  }

  void Place(std::int64_t samples, std::int64_t length, Purpose purpose) {
    const std::int64_t rows = samples * length;
    state_.samples = samples;
    state_.length = length;
    state_.rows = rows;
    arena_.Place([&](Arena<Context>& arena) { LayOut(arena, rows, purpose); });
  }

  void LayOut(Arena<Context>& arena, std::int64_t rows, Purpose purpose) {
    const std::int64_t width = shape_.width;
    const auto take = [&](std::int64_t columns) { return arena.template Take<T>(rows * columns); };
    const auto take_wide = [&](std::int64_t columns) { return arena.template Take<Wide<T>>(rows * columns); };
    const auto take_norm = [&] { return NormState<T>{take(width), take_wide(1), take_wide(1)}; };
    const auto take_layer = [&] {
      return LayerState<T>{.in = take(width),
                           .norm_1 = take_norm(),
                           .qkv = take(3 * width),
                           .attended = take(width),
                           .log_sum = take_wide(shape_.heads),
                           .middle = take(width),
                           .norm_2 = take_norm(),
                           .expanded = take(4 * width),
                           .activated = take(4 * width)};
    };
    state_.layers.front() = take_layer();
    for (std::size_t i = 1; i < state_.layers.size(); ++i) {
      state_.layers[i] = shape_.recompute ? state_.layers.front() : take_layer();
      if (shape_.recompute) state_.layers[i].in = take(width);
    }
    state_.branch = take(width);
    state_.out = take(width);
    state_.norm = take_norm();
    state_.logits = take(shape_.vocabulary);
    state_.loss = arena.template Take<kernels::LossResult>(1);
    if (purpose == Purpose::kEvaluate) return;
    state_.d_stream = take(width);
    state_.d_narrow = take(width);
    state_.d_wide = take(4 * width);
  }

  kernels::AttentionShape Heads() const {
    return {state_.samples, state_.length, shape_.heads, shape_.width / shape_.heads};
  }

  // Dropout masks have numbers: mask 0 is the embedding's, then each layer has three.
  enum class DropoutPlace : std::uint64_t { kAttention = 0, kProjection = 1, kContract = 2 };
  kernels::DropoutMask Mask(const StepKey* key, std::size_t layer, DropoutPlace place) const {
    if (key == nullptr) return {};
    return MaskOf(*key, 1 + 3 * layer + static_cast<std::uint64_t>(place), shape_.dropout);
  }

  // Runs the forward pass. `key` null: no dropout.
  void Forward(const T* weights, std::span<const std::int32_t> tokens, const StepKey* key, const Hooks& hooks) {
    NeedWeights(hooks, tokens_, positions_);
    T* stream = state_.layers.front().in;
    Embedding(context_, kernels::EmbeddingArgs<T>{.sequences = state_.samples,
                                                  .length = state_.length,
                                                  .width = shape_.width,
                                                  .tokens = tokens.data(),
                                                  .token_table = weights + tokens_.offset,
                                                  .position_table = weights + positions_.offset,
                                                  .y = stream});
    if (key != nullptr) {
      Dropout(context_, MaskOf(*key, 0, shape_.dropout), state_.rows * shape_.width, stream);
    }
    for (std::size_t i = 0; i < layers_.size(); ++i) ForwardLayer(i, weights, key, hooks);
    NeedWeights(hooks, norm_.weight, norm_.bias);
    norm_.Forward(context_, weights, state_.rows, state_.layers.back().middle, state_.branch, state_.out, state_.norm);
  }

  // Computes the layer's `middle` and the output of its mlp branch, in `branch`. The layer's input is the residual
  // stream: for the first layer the embedding, for a later one the sum of the previous layer's `middle` and `branch`.
  void ForwardLayer(std::size_t index, const T* weights, const StepKey* key, const Hooks& hooks) {
    const Layer& layer = layers_[index];
    const LayerState<T>& state = state_.layers[index];
    const std::int64_t rows = state_.rows;
    NeedWeights(hooks, layer.norm_1.weight, layer.qkv.bias);
    const T* before = index == 0 ? state.in : state_.layers[index - 1].middle;
    layer.norm_1.Forward(context_, weights, rows, before, index == 0 ? nullptr : state_.branch, state.in, state.norm_1);
    ForwardFromNorm(index, weights, key, hooks);
    NeedWeights(hooks, layer.contract.weight, layer.contract.bias);
    layer.contract.Forward(context_, weights, rows, state.activated, state_.branch);
    Dropout(context_, Mask(key, index, DropoutPlace::kContract), rows * shape_.width, state_.branch);
  }

  // With recomputation, computes a layer's state again from its `in`. The last layer's state is still there.
  void Recompute(std::size_t index, const T* weights, const StepKey& key) {
    if (!shape_.recompute || index + 1 == layers_.size()) return;
    const LayerState<T>& state = state_.layers[index];
    const T* no_branch = nullptr;
    layers_[index].norm_1.Forward(context_, weights, state_.rows, state.in, no_branch, state.in, state.norm_1);
    ForwardFromNorm(index, weights, &key, {});
  }

  // Computes the layer's arrays from `qkv` to `activated`, from the output of its first norm. Overwrites `branch`.
  void ForwardFromNorm(std::size_t index, const T* weights, const StepKey* key, const Hooks& hooks) {
    const Layer& layer = layers_[index];
    const LayerState<T>& state = state_.layers[index];
    const std::int64_t rows = state_.rows;
    layer.qkv.Forward(context_, weights, rows, state.norm_1.y, state.qkv);
    CausalAttention(context_, kernels::AttentionArgs<T>{.shape = Heads(),
                                                        .dropout = Mask(key, index, DropoutPlace::kAttention),
                                                        .qkv = state.qkv,
                                                        .out = state.attended,
                                                        .log_sum = state.log_sum});
    NeedWeights(hooks, layer.projection.weight, layer.projection.bias);
    layer.projection.Forward(context_, weights, rows, state.attended, state_.branch);
    Dropout(context_, Mask(key, index, DropoutPlace::kProjection), rows * shape_.width, state_.branch);

    NeedWeights(hooks, layer.norm_2.weight, layer.expand.bias);
    layer.norm_2.Forward(context_, weights, rows, state.in, state_.branch, state.middle, state.norm_2);
    layer.expand.Forward(context_, weights, rows, state.norm_2.y, state.expanded, Activation::kGelu, state.activated);
  }

  // Computes logits = x E' for `rows` rows of x, where E is the token table (wte).
  void Head(const T* weights, const T* x, std::int64_t rows) {
    Matmul(context_, kernels::Product<T>{.m = rows,
                                         .n = shape_.vocabulary,
                                         .k = shape_.width,
                                         .a = {x, shape_.width},
                                         .b = {weights + tokens_.offset, shape_.width, kernels::Transpose::kYes},
                                         .c = state_.logits,
                                         .c_stride = shape_.vocabulary});
  }

  void HeadLoss(std::span<const std::int32_t> targets, Wide<T> scale) {
    SoftmaxCrossEntropy(context_, kernels::SoftmaxCrossEntropyArgs<T>{.rows = state_.rows,
                                                                      .classes = shape_.vocabulary,
                                                                      .stride = shape_.vocabulary,
                                                                      .logits = state_.logits,
                                                                      .targets = targets.data(),
                                                                      .gradient_scale = scale,
                                                                      .result = state_.loss});
  }

  void Backward(const T* weights, const GradientTarget<T>& target, std::span<const std::int32_t> tokens,
                const StepKey& key, const Hooks& hooks) {
    if (hooks.backward_begins) hooks.backward_begins();
    HeadBackward(weights, target);
    norm_.Backward(context_, weights, target, state_.rows, state_.out, state_.norm, state_.d_narrow, state_.d_stream,
                   Wide<T>(0));
    GradientReady(hooks, norm_.weight, norm_.bias);
    for (std::size_t i = layers_.size(); i-- > 0;) {
      Recompute(i, weights, key);
      BackwardMlp(i, weights, target, key, hooks);
      BackwardAttention(i, weights, target, key, hooks);
    }
    Dropout(context_, MaskOf(key, 0, shape_.dropout), state_.rows * shape_.width, state_.d_stream);
    EmbeddingBackward(context_, kernels::EmbeddingGradient<T>{.sequences = state_.samples,
                                                              .length = state_.length,
                                                              .width = shape_.width,
                                                              .vocabulary = shape_.vocabulary,
                                                              .tokens = tokens.data(),
                                                              .dy = state_.d_stream,
                                                              .token_gradient = target.gradients + tokens_.offset,
                                                              .position_gradient = target.gradients + positions_.offset,
                                                              .position_beta = target.beta});
    GradientReady(hooks, tokens_, positions_);
  }

  // Computes d_narrow = dlogits E, where E is the token table (wte), and the head's part of the gradient of E.
  void HeadBackward(const T* weights, const GradientTarget<T>& target) {
    const std::int64_t vocabulary = shape_.vocabulary, width = shape_.width;
    Matmul(context_, kernels::Product<T>{.m = state_.rows,
                                         .n = width,
                                         .k = vocabulary,
                                         .a = {state_.logits, vocabulary},
                                         .b = {weights + tokens_.offset, width},
                                         .c = state_.d_narrow,
                                         .c_stride = width});
    Matmul(context_, kernels::Product<T, Wide<T>>{.m = vocabulary,
                                                  .n = width,
                                                  .k = state_.rows,
                                                  .a = {state_.logits, vocabulary, kernels::Transpose::kYes},
                                                  .b = {state_.norm.y, width},
                                                  .c = target.gradients + tokens_.offset,
                                                  .c_stride = width,
                                                  .beta = target.beta});
  }

  // Returns the gradient of a branch's output: the stream's gradient times the dropout mask. With dropout the result is
  // in `branch`, else it is the stream's gradient itself.
  T* BranchGradient(const kernels::DropoutMask& mask) {
    if (mask.probability == 0) return state_.d_stream;
    const std::int64_t count = state_.rows * shape_.width;
    Axpby(context_, count, Wide<T>(1), state_.d_stream, Wide<T>(0), state_.branch);
    Dropout(context_, mask, count, state_.branch);
    return state_.branch;
  }

  void BackwardMlp(std::size_t index, const T* weights, const GradientTarget<T>& target, const StepKey& key,
                   const Hooks& hooks) {
    const Layer& layer = layers_[index];
    const LayerState<T>& state = state_.layers[index];
    const std::int64_t rows = state_.rows;
    T* d_branch = BranchGradient(Mask(&key, index, DropoutPlace::kContract));
    layer.contract.BackwardParameters(context_, target, rows, state.activated, d_branch);
    GradientReady(hooks, layer.contract.weight, layer.contract.bias);
    layer.expand.BackwardParameters(context_, target, state.norm_2.y,
                                    layer.contract.InputProduct(weights, rows, d_branch, state_.d_wide),
                                    Activation::kGelu, state.expanded);
    GradientReady(hooks, layer.expand.weight, layer.expand.bias);
    layer.expand.BackwardInput(context_, weights, rows, state_.d_wide, state_.d_narrow);
    layer.norm_2.Backward(context_, weights, target, rows, state.middle, state.norm_2, state_.d_narrow, state_.d_stream,
                          Wide<T>(1));
    GradientReady(hooks, layer.norm_2.weight, layer.norm_2.bias);
  }

  void BackwardAttention(std::size_t index, const T* weights, const GradientTarget<T>& target, const StepKey& key,
                         const Hooks& hooks) {
    const Layer& layer = layers_[index];
    const LayerState<T>& state = state_.layers[index];
    const std::int64_t rows = state_.rows;
    T* d_branch = BranchGradient(Mask(&key, index, DropoutPlace::kProjection));
    layer.projection.BackwardParameters(context_, target, rows, state.attended, d_branch);
    GradientReady(hooks, layer.projection.weight, layer.projection.bias);
    layer.projection.BackwardInput(context_, weights, rows, d_branch, state_.d_narrow);
    CausalAttentionBackward(context_,
                            kernels::AttentionGradient<T>{.shape = Heads(),
                                                          .dropout = Mask(&key, index, DropoutPlace::kAttention),
                                                          .qkv = state.qkv,
                                                          .out = state.attended,
                                                          .log_sum = state.log_sum,
                                                          .dout = state_.d_narrow,
                                                          .dqkv = state_.d_wide});
    layer.qkv.BackwardParameters(context_, target, rows, state.norm_1.y, state_.d_wide);
    GradientReady(hooks, layer.qkv.weight, layer.qkv.bias);
    layer.qkv.BackwardInput(context_, weights, rows, state_.d_wide, state_.d_narrow);
    layer.norm_1.Backward(context_, weights, target, rows, state.in, state.norm_1, state_.d_narrow, state_.d_stream,
                          Wide<T>(1));
    GradientReady(hooks, layer.norm_1.weight, layer.norm_1.bias);
  }

  Context& context_;
  Arena<Context> arena_;
  GptShape shape_;
  Parameters parameters_;
  Parameter tokens_, positions_;
  std::vector<Layer> layers_;
  LayerNorm norm_;
  State<T> state_{};  // arrays of the current batch
};

}  // namespace detail

template <class T, class Context>
Result<std::unique_ptr<Model<T>>> CreateGpt(Context& context, const GptShape& shape) {
  CAPSTAN_RETURN_IF_ERROR(CheckSize("vocabulary", shape.vocabulary));
  CAPSTAN_RETURN_IF_ERROR(CheckSize("context", shape.context));
  CAPSTAN_RETURN_IF_ERROR(CheckSize("layers", shape.layers, kLayersMax));
  CAPSTAN_RETURN_IF_ERROR(CheckSize("heads", shape.heads));
  CAPSTAN_RETURN_IF_ERROR(CheckSize("width", shape.width));
  CAPSTAN_RETURN_IF_ERROR(CheckDropout(shape.dropout));
  if (shape.width % shape.heads != 0) {
    return Invalid("model.width is " + std::to_string(shape.width) +
                   ", which model.heads = " + std::to_string(shape.heads) + " does not divide");
  }
  return std::unique_ptr<Model<T>>(std::make_unique<detail::Gpt<Context, T>>(context, shape));
}

}  // namespace capstan::nn
