// Resnet, CreateResnet: residual networks. See model.h.
//
// Why:    this is a header, because the library instantiates it for CpuContext and each plug-in for CudaContext.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "kernels/pooling.h"
#include "worker/nn/arena.h"
#include "worker/nn/batch_norm_layer.h"
#include "worker/nn/classifier.h"
#include "worker/nn/convolution.h"
#include "worker/nn/linear_stack.h"
#include "worker/nn/model.h"
#include "worker/nn/shape_check.h"

namespace capstan::nn {
namespace detail {

using kernels::Activation;

inline constexpr std::int64_t kWidthMax = kChannelsMax / 32;  // a bottleneck's last stage has 32 times as many channels
inline constexpr Window kStemPool{.size = 3, .stride = 2, .padding = 1};

enum class BlockKind : std::uint8_t { kBasic, kBottleneck };

struct Depth {
  std::int64_t layers;
  BlockKind kind;
  std::array<int, 4> blocks;  // per stage
};

inline constexpr Depth kDepths[] = {{18, BlockKind::kBasic, {2, 2, 2, 2}},
                                    {34, BlockKind::kBasic, {3, 4, 6, 3}},
                                    {50, BlockKind::kBottleneck, {3, 4, 6, 3}},
                                    {101, BlockKind::kBottleneck, {3, 4, 23, 3}},
                                    {152, BlockKind::kBottleneck, {3, 8, 36, 3}}};

inline const Depth* FindDepth(std::int64_t layers) {
  const auto* found =
      std::find_if(std::begin(kDepths), std::end(kDepths), [&](const Depth& d) { return d.layers == layers; });
  return found == std::end(kDepths) ? nullptr : found;
}

// Returns the init of He, Zhang, Ren, Sun, "Delving deep into rectifiers", 2015: normal with variance 2 / fan_out,
// where fan_out is the number of outputs that one input reaches.
inline Init FilterInit(std::int64_t filters, const Window& window) {
  const auto fan_out = static_cast<double>(filters * window.size * window.size);
  return {InitKind::kNormal, static_cast<float>(std::sqrt(2.0 / fan_out))};
}

// A convolution and its batch norm.
struct Unit {
  Unit(Parameters& parameters, const std::string& convolution_name, const std::string& norm_name,
       const ImageSize& image, std::int64_t filters, const Window& window)
      : convolution(parameters, convolution_name, image, filters, window, FilterInit(filters, window), std::nullopt),
        norm(parameters, norm_name, filters) {}

  const ImageSize& out() const { return convolution.out; }

  Convolution convolution;
  BatchNormLayer norm;
};

// A residual block: a sequence of units. The block's input, or its shortcut unit's output, is added to the output of
// the last unit's norm, before the last ReLU.
struct Block {
  const ImageSize& out() const { return units.back().out(); }
  Parameter last() const { return shortcut ? shortcut->norm.last() : units.back().norm.last(); }

  std::vector<Unit> units;
  std::optional<Unit> shortcut;
};

inline Block MakeBlock(Parameters& parameters, const std::string& name, const ImageSize& in, BlockKind kind,
                       std::int64_t channels, std::int64_t stride) {
  Block block;
  ImageSize image = in;
  const auto add = [&](std::int64_t filters, const Window& window) {
    const std::string number = std::to_string(block.units.size() + 1);
    block.units.emplace_back(parameters, name + ".conv" + number, name + ".bn" + number, image, filters, window);
    image = block.out();
  };
  if (kind == BlockKind::kBasic) {
    add(channels, {.size = 3, .stride = stride, .padding = 1});
    add(channels, {.size = 3, .padding = 1});
  } else {
    add(channels, {});
    add(channels, {.size = 3, .stride = stride, .padding = 1});
    add(4 * channels, {});
  }
  if (stride != 1 || in.channels != image.channels) {
    block.shortcut.emplace(parameters, name + ".downsample.0", name + ".downsample.1", in, image.channels,
                           Window{.stride = stride});
  }
  return block;
}

inline bool IsSmall(const ImageSize& image) { return std::max(image.height, image.width) <= ResnetShape::kSmallImage; }

// The size of a unit's output per sample. Cover raises it to that of another unit where that is larger.
struct UnitSize {
  UnitSize() = default;
  explicit UnitSize(const Unit& unit) { Cover(unit); }
  void Cover(const Unit& unit) {
    elements = std::max(elements, unit.out().elements());
    channels = std::max(channels, unit.out().channels);
  }

  std::int64_t elements = 0, channels = 0;
};

// A unit's arrays that the backward pass needs.
template <class T>
struct UnitState {
  T* convolved;
  NormState<T> norm;  // norm.y is the unit's output
};

template <class T>
struct BlockState {
  std::vector<UnitState<T>> units;
  UnitState<T> shortcut;
};

// The output of the max pooling after the stem, and where each maximum came from. Null for small images, which are not
// pooled.
template <class T>
struct StemPoolState {
  T* y = nullptr;
  std::int32_t* argmax = nullptr;
};

template <class Context, class T>
class Resnet final : public Model<T> {
 public:
  Resnet(Context& context, const ResnetShape& shape)
      : context_(context),
        arena_(context),
        shape_(shape),
        stem_(parameters_, "conv1", "bn1", shape.image, shape.width,
              IsSmall(shape.image) ? Window{.size = 3, .padding = 1} : Window{.size = 7, .stride = 2, .padding = 3}),
        pooled_(IsSmall(shape.image) ? stem_.out() : OutputOf(stem_.out(), kStemPool, shape.width)),
        blocks_(MakeBlocks(parameters_, shape, pooled_)),
        linear_(parameters_, "fc", blocks_.back().out().channels, shape.classes,
                InputsInit(blocks_.back().out().channels), InputsInit(blocks_.back().out().channels)),
        block_states_(blocks_.size()) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) block_states_[i].units.resize(blocks_[i].units.size());
  }

  const std::vector<TensorSpec>& tensors() const override { return parameters_.tensors(); }
  std::size_t activation_bytes() const override { return arena_.bytes(); }
  void ReserveActivations(std::size_t bytes) override { arena_.Reserve(bytes); }
  std::size_t MeasureActivations(std::int64_t samples) override {
    samples_ = samples;
    return arena_.Measure([&](Arena<Context>& arena) { LayOut(arena); });
  }
  std::vector<kernels::Conv2dShape> Convolutions(std::int64_t samples) const override {
    std::vector<kernels::Conv2dShape> shapes = {stem_.convolution.Shape(samples)};
    for (const Block& block : blocks_) {
      for (const Unit& unit : block.units) shapes.push_back(unit.convolution.Shape(samples));
      if (block.shortcut) shapes.push_back(block.shortcut->convolution.Shape(samples));
    }
    return shapes;
  }

  void Check(const Batch& batch) const override { CheckRows(batch, shape_.image.elements(), shape_.classes); }

  void StartTraining(const T* weights, Wide<T>* gradients, const Batch& batch, const StepKey&,
                     const TrainOptions& options, const Hooks& hooks) override {
    Place(batch);
    const Wide<T> beta = options.mode == GradientMode::kAdd ? Wide<T>(1) : Wide<T>(0);
    const StatisticsTarget<T> statistics{gradients, beta, static_cast<Wide<T>>(options.sample_share)};
    Forward(weights, &statistics, hooks);
    ClassLoss(context_, batch, shape_.classes, options.gradient_scale, logits_, loss_);
    Backward(weights, {gradients, beta}, hooks);
  }

  void StartEvaluation(const T* weights, const Batch& batch, const Hooks& hooks, const Wide<T>* statistics) override {
    running_ = statistics;
    if constexpr (!kIs16Bit<T>) running_ = statistics == nullptr ? weights : statistics;
    CAPSTAN_CHECK(running_ != nullptr);
    Place(batch);
    Forward(weights, nullptr, hooks);
    ClassLoss(context_, batch, shape_.classes, 1.0, logits_, loss_);
  }

  LossSums Loss() override { return ReadLoss(context_, samples_, loss_); }

 private:
  static std::vector<Block> MakeBlocks(Parameters& parameters, const ResnetShape& shape, ImageSize image) {
    const Depth& depth = *FindDepth(shape.depth);
    std::vector<Block> blocks;
    for (std::size_t stage = 0; stage < depth.blocks.size(); ++stage) {
      for (int i = 0; i < depth.blocks[stage]; ++i) {
        const std::string name = "layer" + std::to_string(stage + 1) + "." + std::to_string(i);
        const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
        blocks.push_back(MakeBlock(parameters, name, image, depth.kind, shape.width << stage, stride));
        image = blocks.back().out();
      }
    }
    return blocks;
  }

  std::int64_t Pixels(const Unit& unit) const { return samples_ * unit.out().height * unit.out().width; }

  void Place(const Batch& batch) {
    samples_ = batch.samples;
    arena_.Place([&](Arena<Context>& arena) { LayOut(arena); });
    inputs_ = InputsAs(context_, batch, converted_);
  }

  T* TakeImages(Arena<Context>& arena, std::int64_t elements) const {
    return arena.template Take<T>(samples_ * elements);
  }
  UnitState<T> TakeUnit(Arena<Context>& arena, const UnitSize& size, T* y) const {
    Wide<T>* const mean = arena.template Take<Wide<T>>(size.channels);
    return {TakeImages(arena, size.elements), {y, mean, arena.template Take<Wide<T>>(size.channels)}};
  }
  UnitState<T> TakeUnit(Arena<Context>& arena, const UnitSize& size) const {
    return TakeUnit(arena, size, TakeImages(arena, size.elements));
  }

  // Takes memory from the arena for all arrays of a batch of samples_ samples.
  void LayOut(Arena<Context>& arena) {
    const ImageSize& last = blocks_.back().out();
    if (kConvertsInputs<T>) converted_ = TakeImages(arena, shape_.image.elements());
    stem_state_ = TakeUnit(arena, UnitSize(stem_));
    if (!IsSmall(shape_.image)) {
      stem_pool_state_.y = TakeImages(arena, pooled_.elements());
      stem_pool_state_.argmax = arena.template Take<std::int32_t>(samples_ * pooled_.elements());
    }
    shape_.recompute ? LayOutOneBlock(arena) : LayOutBlocks(arena);
    features_ = TakeImages(arena, last.channels);
    logits_ = TakeImages(arena, shape_.classes);
    loss_ = arena.template Take<kernels::LossResult>(1);
    d_features_ = TakeImages(arena, last.channels);
    UnitSize largest(stem_);
    for (const Block& block : blocks_) {
      for (const Unit& unit : block.units) largest.Cover(unit);
      if (block.shortcut) largest.Cover(*block.shortcut);
    }
    for (T*& buffer : d_) buffer = TakeImages(arena, largest.elements);
  }

  void LayOutBlocks(Arena<Context>& arena) {
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      for (std::size_t u = 0; u < block.units.size(); ++u) {
        block_states_[i].units[u] = TakeUnit(arena, UnitSize(block.units[u]));
      }
      if (block.shortcut) block_states_[i].shortcut = TakeUnit(arena, UnitSize(*block.shortcut));
    }
  }

  // For recomputation: all blocks share the same memory, except for their outputs.
  void LayOutOneBlock(Arena<Context>& arena) {
    std::vector<UnitSize> units(blocks_.front().units.size());
    UnitSize shortcut;
    for (const Block& block : blocks_) {
      for (std::size_t u = 0; u < units.size(); ++u) units[u].Cover(block.units[u]);
      if (block.shortcut) shortcut.Cover(*block.shortcut);
    }
    BlockState<T> shared;
    for (const UnitSize& unit : units) {
      shared.units.push_back(&unit == &units.back() ? TakeUnit(arena, unit, nullptr) : TakeUnit(arena, unit));
    }
    shared.shortcut = TakeUnit(arena, shortcut);
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      block_states_[i] = shared;
      block_states_[i].units.back().norm.y = TakeImages(arena, blocks_[i].out().elements());
    }
  }

  // Returns the input of block `i`. If `i` is the number of blocks, returns the input of the average over pixels.
  const T* BlockInput(std::size_t i) const {
    if (i > 0) return block_states_[i - 1].units.back().norm.y;
    return IsSmall(shape_.image) ? stem_state_.norm.y : stem_pool_state_.y;
  }

  kernels::ImageWindows StemPooling() const { return WindowsOf(samples_, stem_.out(), kStemPool); }

  // ---- forward pass; `statistics` null: use the running statistics --------------------------------------------------

  void ForwardUnit(const Unit& unit, const UnitState<T>& state, const T* weights, const StatisticsTarget<T>* statistics,
                   const T* x, const T* residual, Activation activation) {
    unit.convolution.Forward(context_, weights, samples_, x, state.convolved);
    if (statistics == nullptr) {
      unit.norm.Evaluate(context_, weights, running_, Pixels(unit), state.convolved, residual, activation,
                         state.norm.y);
    } else {
      unit.norm.Forward(context_, weights, *statistics, Pixels(unit), state.convolved, residual, activation,
                        state.norm);
    }
  }

  void ForwardBlock(std::size_t index, const T* weights, const StatisticsTarget<T>* statistics, const Hooks& hooks) {
    const Block& block = blocks_[index];
    const BlockState<T>& state = block_states_[index];
    const T* x = BlockInput(index);
    const T* residual = x;
    const std::size_t end = block.units.size() - 1;
    for (std::size_t i = 0; i < end; ++i) {
      NeedWeights(hooks, block.units[i].convolution.weight, block.units[i].norm.last());
      ForwardUnit(block.units[i], state.units[i], weights, statistics, x, nullptr, Activation::kRelu);
      x = state.units[i].norm.y;
    }
    NeedWeights(hooks, block.units[end].convolution.weight, block.last());
    if (block.shortcut) {
      ForwardUnit(*block.shortcut, state.shortcut, weights, statistics, residual, nullptr, Activation::kNone);
      residual = state.shortcut.norm.y;
    }
    ForwardUnit(block.units[end], state.units[end], weights, statistics, x, residual, Activation::kRelu);
  }

  // With recomputation, computes a block's state again from its input. The last block's state is still there.
  void Recompute(std::size_t index, const T* weights) {
    if (!shape_.recompute || index + 1 == blocks_.size()) return;
    const StatisticsTarget<T> counted_before;
    ForwardBlock(index, weights, &counted_before, {});
  }

  void Forward(const T* weights, const StatisticsTarget<T>* statistics, const Hooks& hooks) {
    NeedWeights(hooks, stem_.convolution.weight, stem_.norm.last());
    ForwardUnit(stem_, stem_state_, weights, statistics, inputs_, nullptr, Activation::kRelu);
    if (!IsSmall(shape_.image))
      MaxPool(context_, StemPooling(), stem_state_.norm.y, stem_pool_state_.y, stem_pool_state_.argmax);
    for (std::size_t i = 0; i < blocks_.size(); ++i) ForwardBlock(i, weights, statistics, hooks);
    const ImageSize& last = blocks_.back().out();
    GlobalAverage(context_, samples_, last.height * last.width, last.channels, BlockInput(blocks_.size()), features_);
    NeedWeights(hooks, linear_.weight, linear_.bias);
    linear_.Forward(context_, weights, samples_, features_, logits_);
  }

  // ---- backward pass ------------------------------------------------------------------------------------------------

  // Computes, from the gradient dy of the unit's output, the gradient of its convolution's output and the parameters'
  // gradients. Changes dy as BatchNormLayer::Backward does.
  void BackwardUnit(const Unit& unit, const UnitState<T>& state, const T* weights, const GradientTarget<T>& target,
                    const T* x, Activation activation, T* dy, T* d_convolved, const Hooks& hooks) {
    unit.norm.Backward(context_, weights, target, Pixels(unit), state.convolved, state.norm, activation, dy,
                       d_convolved);
    unit.convolution.BackwardParameters(context_, target, samples_, x, d_convolved);
    GradientReady(hooks, unit.convolution.weight, unit.norm.last());
  }

  // d_[0] holds the gradient of the block's output. Replaces that by the gradient of the block's input.
  void BackwardBlock(std::size_t index, const T* weights, const GradientTarget<T>& target, const Hooks& hooks) {
    const Block& block = blocks_[index];
    const BlockState<T>& state = block_states_[index];
    const T* in = BlockInput(index);
    T* d_unit = d_[1];
    T* free = d_[2];
    for (std::size_t i = block.units.size(); i-- > 0;) {
      const bool last = i + 1 == block.units.size();
      BackwardUnit(block.units[i], state.units[i], weights, target, i > 0 ? state.units[i - 1].norm.y : in,
                   Activation::kRelu, last ? d_[0] : d_unit, d_unit, hooks);
      if (i == 0) break;
      block.units[i].convolution.BackwardInput(context_, weights, samples_, d_unit, free);
      std::swap(d_unit, free);
    }
    // Now d_[0] is the gradient of the term that was added to the last unit: the shortcut or the block's input.
    if (block.shortcut) {
      BackwardUnit(*block.shortcut, state.shortcut, weights, target, in, Activation::kNone, d_[0], d_[0], hooks);
      block.shortcut->convolution.BackwardInput(context_, weights, samples_, d_[0], free);
      std::swap(d_[0], free);
    }
    block.units.front().convolution.BackwardInput(context_, weights, samples_, d_unit, d_[0], Wide<T>(1));
    d_[1] = d_unit;
    d_[2] = free;
  }

  void Backward(const T* weights, const GradientTarget<T>& target, const Hooks& hooks) {
    if (hooks.backward_begins) hooks.backward_begins();
    linear_.BackwardParameters(context_, target, samples_, features_, logits_);
    GradientReady(hooks, linear_.weight, linear_.bias);
    linear_.BackwardInput(context_, weights, samples_, logits_, d_features_);
    const ImageSize& last = blocks_.back().out();
    GlobalAverageBackward(context_, samples_, last.height * last.width, last.channels, d_features_, d_[0]);
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      Recompute(i, weights);
      BackwardBlock(i, weights, target, hooks);
    }
    if (!IsSmall(shape_.image)) {
      MaxPoolBackward(context_, StemPooling(), d_[0], stem_pool_state_.argmax, d_[1]);
      std::swap(d_[0], d_[1]);
    }
    BackwardUnit(stem_, stem_state_, weights, target, inputs_, Activation::kRelu, d_[0], d_[0], hooks);
  }

  Context& context_;
  Arena<Context> arena_;
  ResnetShape shape_;
  Parameters parameters_;
  Unit stem_;
  ImageSize pooled_;  // the first block's input
  std::vector<Block> blocks_;
  Linear linear_;

  // The current batch.
  const Wide<T>* running_ = nullptr;  // running statistics, for Evaluate
  std::int64_t samples_ = 0;
  const T* inputs_ = nullptr;
  T* converted_ = nullptr;
  UnitState<T> stem_state_{};
  StemPoolState<T> stem_pool_state_;
  std::vector<BlockState<T>> block_states_;
  T* features_ = nullptr;  // means over the pixels of the last block's output
  T* logits_ = nullptr;    // become their gradient
  T* d_features_ = nullptr;
  kernels::LossResult* loss_ = nullptr;
  std::array<T*, 3> d_{};  // each as large as the largest unit's output
};

}  // namespace detail

template <class T, class Context>
Result<std::unique_ptr<Model<T>>> CreateResnet(Context& context, const ResnetShape& shape) {
  CAPSTAN_RETURN_IF_ERROR(CheckImage(shape.image));
  CAPSTAN_RETURN_IF_ERROR(CheckSize("classes", shape.classes));
  CAPSTAN_RETURN_IF_ERROR(CheckSize("width", shape.width, detail::kWidthMax));
  if (detail::FindDepth(shape.depth) == nullptr) {
    return Invalid("model.depth is " + std::to_string(shape.depth) + "; a resnet has 18, 34, 50, 101 or 152 layers");
  }
  return std::unique_ptr<Model<T>>(std::make_unique<detail::Resnet<Context, T>>(context, shape));
}

}  // namespace capstan::nn
