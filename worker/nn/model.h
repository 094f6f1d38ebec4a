// Model: a network with hand-written forward and backward passes. Weights and gradients are flat arrays in catalog
// order.
//
// Kind:   owned by the one thread that calls it; so is its context, which must outlive it.
// Limits: activations are in one arena that grows to the largest batch seen; after that no step allocates.
// Fails:  Create... with kInvalid that names the wrong size. A batch of another shape than the model's, or with tokens
//         or targets out of range, is the caller's bug: the code that reads data checks them.
// Why:    the interface is coarse (a whole batch per call), so that a model can be in a plug-in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/data/catalog.h"
#include "common/data/number16.h"
#include "kernels/base/context.h"
#include "kernels/conv2d.h"

namespace capstan::nn {

// One micro-batch, of one sample or more. A model uses either `inputs` or `tokens`.
struct Batch {
  std::int64_t samples = 0;               // sequences (gpt) or rows (the others)
  std::span<const float> inputs;          // mlp: [samples, features]; images: [samples, height, width, channels]
  std::span<const std::int32_t> tokens;   // gpt: [samples, context]
  std::span<const std::int32_t> targets;  // [samples]; gpt: [samples, context]
};

// A StepKey and the number of a layer determine a dropout mask.
struct StepKey {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint32_t slot = 0;
  std::uint32_t micro_batch = 0;
};

struct LossSums {
  double loss = 0;           // summed over predictions; the mean is loss / count
  std::int64_t count = 0;    // predictions: tokens (gpt) or samples
  std::int64_t correct = 0;  // predictions whose target has the largest logit
};

enum class GradientMode : std::uint8_t { kReplace, kAdd };

struct TrainOptions {
  double gradient_scale = 1;  // the gradient is that of gradient_scale * LossSums::loss
  GradientMode mode = GradientMode::kReplace;
  // For running statistics (TensorKind) `gradients` receives sample_share times the statistic of this batch,
  // independent of gradient_scale. sample_share is the batch's share of the slot's samples, so micro-batches add up to
  // a mean.
  double sample_share = 1;
  // Whether this call completes the gradients. If not, a device does not copy them to the host: the next call adds to
  // them.
  bool deliver = true;
};

// Called on the thread that runs the model; each may be empty.
struct Hooks {
  // Weights of tensors [first, last] are about to be read for the first time in this call. Called in catalog order.
  std::function<void(TensorIndex first, TensorIndex last)> need_weights;
  // The loss is computed and the backward pass begins.
  std::function<void()> backward_begins;
  // Gradients of tensors [first, last] are final. Called once for each tensor, roughly in reverse catalog order.
  std::function<void(TensorIndex first, TensorIndex last)> gradient_ready;
  // The gradient of one tensor is final from `element` on, and the rest of it is computed next. Optional for a model;
  // it calls gradient_ready for the tensor afterwards. Leave it empty where work is only enqueued.
  std::function<void(TensorIndex tensor, std::uint64_t element)> gradient_ready_from;
};

// T is the type of weights and activations: float, Bf16, Half or, as the reference for tests, double. Gradients of
// weights are Wide<T>: float, or double for double.
template <class T>
class Model {
 public:
  virtual ~Model() = default;

  // Returns the tensors in catalog order, which is the order of the forward pass.
  virtual const std::vector<TensorSpec>& tensors() const = 0;

  // Returns how much memory the model has allocated for activations: enough for the largest batch so far.
  virtual std::size_t activation_bytes() const = 0;

  // Returns the bytes that activations take when Train gets a batch of `samples` samples, 1 or more. Allocates nothing.
  virtual std::size_t MeasureActivations(std::int64_t samples) = 0;

  // Returns the shapes of the convolutions for a batch of so many samples, to compute the workspace that they need.
  virtual std::vector<kernels::Conv2dShape> Convolutions(std::int64_t /*samples*/) const { return {}; }

  // Allocates that much for activations now: memory that grows in small steps leaves unusable holes in the process.
  virtual void ReserveActivations(std::size_t bytes) = 0;

  // CHECKs that the batch has the model's shape. The batch is in host memory.
  virtual void Check(const Batch& batch) const = 0;

  // `weights` and `gradients` hold the tensors in catalog order, without gaps. Gradients are replaced or added to, as
  // the options say; replacing does not read them. All arrays, also those of `batch`, are in the context's memory. On a
  // device the work is only enqueued when this returns.
  virtual void StartTraining(const T* weights, Wide<T>* gradients, const Batch& batch, const StepKey& key,
                             const TrainOptions& options, const Hooks& hooks) = 0;

  // Computes the loss without dropout. `statistics`: a flat array of all tensors, from which running statistics are
  // read. Null: they are read from `weights`. A 16-bit model with running statistics needs the array.
  virtual void StartEvaluation(const T* weights, const Batch& batch, const Hooks& hooks, const Wide<T>* statistics) = 0;

  // Waits until the last StartTraining or StartEvaluation is done, and returns its result.
  virtual LossSums Loss() = 0;

  // Calls Check, StartTraining and Loss, for contexts whose memory is the host's.
  LossSums Train(const T* weights, Wide<T>* gradients, const Batch& batch, const StepKey& key,
                 const TrainOptions& options, const Hooks& hooks) {
    Check(batch);
    StartTraining(weights, gradients, batch, key, options, hooks);
    return Loss();
  }
  LossSums Evaluate(const T* weights, const Batch& batch, const Hooks& hooks, const Wide<T>* statistics = nullptr) {
    Check(batch);
    StartEvaluation(weights, batch, hooks, statistics);
    return Loss();
  }

  // gpt: returns the logits of the token that follows `tokens`, of which there are 1 to `context`. The logits are in
  // the context's memory, and valid until the next call.
  virtual Result<std::span<const T>> NextTokenLogits(const T* /*weights*/, std::span<const std::int32_t> /*tokens*/) {
    return Unsupported("this model has no next token; only a gpt has");
  }
};

// Linear layers with ReLU between them, and dropout after each ReLU.
struct MlpShape {
  std::int64_t features = 0, classes = 0;
  std::vector<std::int64_t> hidden = {};  // widths; none: a linear classifier
  double dropout = 0;
};

struct ImageSize {
  std::int64_t height = 0, width = 0, channels = 0;
  std::int64_t elements() const { return height * width * channels; }
  std::string ToString() const { return std::to_string(height) + " x " + std::to_string(width); }
};

// For each entry of `channels` there is a 3 x 3 convolution with that many filters, ReLU and 2 x 2 max pooling. Then
// come linear layers as in an mlp. Their input is the last pooling's output as one row.
struct ConvnetShape {
  ImageSize image;
  std::int64_t classes = 0;
  std::vector<std::int64_t> channels = {}, hidden = {};
  double dropout = 0;
};

// Residual networks (He, Zhang, Ren, Sun, 2015). Networks of depth 18 and 34 have basic blocks. Those of depth 50, 101
// and 152 have bottlenecks, whose stride is in the 3 x 3 convolution. Images of at most kSmallImage pixels a side go
// first through a 3 x 3 convolution that keeps their size. Larger ones go through a 7 x 7 convolution and a pooling,
// which together divide height and width by 4. Batch norm uses the statistics of the micro-batch, and in Evaluate the
// running statistics.
struct ResnetShape {
  static constexpr std::int64_t kSmallImage = 64;
  ImageSize image;
  std::int64_t classes = 0, depth = 0;
  std::int64_t width = 64;  // channels of the first stage; each later stage has twice as many as the one before
  // Keep only each block's output and recompute the rest of the block in the backward pass: the same bits in less
  // memory, for about a third more work.
  bool recompute = false;
};

// GPT-2: layer norm before each branch and at the end, GELU (tanh form), learned positions, and a head that uses the
// token embedding's weights. Dropout follows the embedding, the attention's probabilities and the end of each branch.
struct GptShape {
  std::int64_t vocabulary = 0, context = 0, layers = 0, heads = 0, width = 0;
  double dropout = 0;
  // Keep only each layer's input and recompute the rest of the layer in the backward pass: the same bits in less
  // memory, for about a third more work.
  bool recompute = false;
};

// Instantiated for all T on CpuContext, and for all but double on CudaContext in the plug-ins.
template <class T, class Context>
Result<std::unique_ptr<Model<T>>> CreateMlp(Context& context, const MlpShape& shape);
template <class T, class Context>
Result<std::unique_ptr<Model<T>>> CreateConvnet(Context& context, const ConvnetShape& shape);
template <class T, class Context>
Result<std::unique_ptr<Model<T>>> CreateResnet(Context& context, const ResnetShape& shape);
template <class T, class Context>
Result<std::unique_ptr<Model<T>>> CreateGpt(Context& context, const GptShape& shape);

using ModelShape = std::variant<MlpShape, ConvnetShape, ResnetShape, GptShape>;

template <class T, class Context>
Result<std::unique_ptr<Model<T>>> CreateModel(Context& context, const ModelShape& shape) {
  struct Creator {
    Context& context;
    auto operator()(const MlpShape& s) const { return CreateMlp<T>(context, s); }
    auto operator()(const ConvnetShape& s) const { return CreateConvnet<T>(context, s); }
    auto operator()(const ResnetShape& s) const { return CreateResnet<T>(context, s); }
    auto operator()(const GptShape& s) const { return CreateGpt<T>(context, s); }
  };
  return std::visit(Creator{context}, shape);
}

}  // namespace capstan::nn
