// A block with random contents, for tests of its update.
//
// Kind:   values. Arrays start at a multiple of 64 bytes; payloads start at an odd address, as received ones may.
#pragma once

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <vector>

#include "common/base/random.h"
#include "common/config/job/optimizer_kind.h"
#include "update/block_update.h"

namespace capstan::server {

struct FreeAligned {
  void operator()(float* p) const { ::operator delete[](p, std::align_val_t{64}); }
};

// An array of floats that starts at a multiple of 64 bytes.
class Floats {
 public:
  explicit Floats(std::size_t count = 0, float value = 0.0F)
      : count_(count), data_(new (std::align_val_t{64}) float[count + 1]) {
    for (std::size_t i = 0; i < count; ++i) data_[i] = value;
  }
  Floats(const Floats& other) : Floats(other.count_) { std::memcpy(data(), other.data(), count_ * sizeof(float)); }
  Floats& operator=(const Floats& other) {
    Floats copy(other);
    std::swap(count_, copy.count_);
    std::swap(data_, copy.data_);
    return *this;
  }
  float* data() const { return data_.get(); }
  std::size_t size() const { return count_; }
  float& operator[](std::size_t i) const { return data_[i]; }
  // Whether the bits are equal: a NaN equals itself, 0 differs from -0.
  bool operator==(const Floats& other) const {
    return count_ == other.count_ && std::memcmp(data(), other.data(), count_ * sizeof(float)) == 0;
  }

 private:
  std::size_t count_;
  std::unique_ptr<float[], FreeAligned> data_;
};

// Returns a number of a bell-shaped distribution, without libm: the sum of four uniform ones, of variance 1.
inline float NormalLike(RandomStream* random) {
  double sum = -2.0;
  for (std::uint64_t bits = random->Next64(), i = 0; i < 4; ++i, bits >>= 16) {
    sum += static_cast<double>(bits & 0xFFFF) * 0x1p-16;
  }
  return static_cast<float>(sum * 1.7320508);
}

inline Floats RandomFloats(RandomStream* random, std::size_t count, float scale = 1.0F) {
  Floats floats(count);
  for (std::size_t i = 0; i < count; ++i) floats[i] = scale * NormalLike(random);
  return floats;
}

// The value of a node of the reduction tree (for a leaf: a slot's gradient), with its own memory.
class Contribution {
 public:
  Contribution(Node node, std::uint64_t samples, const Floats& values)
      : node_(node), samples_(samples), bytes_(values.size() * sizeof(float) + 1) {
    std::memcpy(bytes_.data() + 1, values.data(), values.size() * sizeof(float));
  }
  StagedInput input() const { return {node_, samples_, samples_ == 0 ? nullptr : bytes_.data() + 1}; }
  Node node() const { return node_; }
  std::uint64_t samples() const { return samples_; }
  float value(std::size_t i) const {
    float v;
    std::memcpy(&v, bytes_.data() + 1 + i * sizeof(float), sizeof(float));
    return v;
  }

 private:
  Node node_;
  std::uint64_t samples_;
  std::vector<std::byte> bytes_;
};

inline std::vector<StagedInput> Inputs(const std::vector<Contribution>& contributions) {
  std::vector<StagedInput> inputs;
  for (const Contribution& contribution : contributions) inputs.push_back(contribution.input());
  return inputs;
}

// The weights and state of one version of a block, and the other results of an update.
struct BlockArrays {
  Floats weights, state[kStatesMax], sum;
  std::vector<double> squares;

  BlockArrays(std::size_t count, std::size_t segments)
      : weights(count), state{Floats(count), Floats(count), Floats(count)}, sum(count), squares(segments) {}

  BlockIn in() const { return {weights.data(), {state[0].data(), state[1].data(), state[2].data()}}; }
  BlockOut out(WritePath path = WritePath::kCached) const {
    return {weights.data(), {state[0].data(), state[1].data(), state[2].data()}, sum.data(), path};
  }
  bool SameVersion(const BlockArrays& other) const {
    return weights == other.weights && std::equal(std::begin(state), std::end(state), std::begin(other.state));
  }
};

// Makes random arrays. The states are not negative, as second moments are not.
inline BlockArrays RandomBlock(RandomStream* random, std::size_t count, std::size_t segments) {
  BlockArrays block(count, segments);
  block.weights = RandomFloats(random, count);
  block.state[0] = RandomFloats(random, count, 0.1F);
  for (std::size_t i = 0; i < count; ++i) {
    block.state[0][i] *= block.state[0][i];
    block.state[1][i] = 0.01F * static_cast<float>(random->Unit());
    block.state[2][i] = 0.01F * static_cast<float>(random->Unit());
  }
  return block;
}

// Returns two segments with `count` elements in total, the second one without weight decay. For one element, returns
// one segment.
inline std::vector<SegmentRange> TwoSegments(std::uint32_t count) {
  const std::uint32_t first = (count + 1) / 2;
  std::vector<SegmentRange> segments{{0, first, true}};
  if (count > first) segments.push_back({first, count - first, false});
  return segments;
}

inline const std::vector<OptimizerRule>& AllRules() {
  static const std::vector<OptimizerRule> rules{
      {.kind = OptimizerKind::kSgd},
      {.kind = OptimizerKind::kSgd, .weight_decay = 0.1},
      {.kind = OptimizerKind::kMomentum, .momentum = 0.9, .weight_decay = 0.1},
      {.kind = OptimizerKind::kMomentum, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
      {.kind = OptimizerKind::kAdam, .weight_decay = 0.1},
      {.kind = OptimizerKind::kAdam, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-6},
      {.kind = OptimizerKind::kAdamW, .weight_decay = 0.1},
      {.kind = OptimizerKind::kAdagrad, .eps = 1e-10, .weight_decay = 0.01},
      {.kind = OptimizerKind::kLars, .momentum = 0.9, .weight_decay = 0.01},
      {.kind = OptimizerKind::kLamb, .eps = 1e-6, .weight_decay = 0.1},
      {.kind = OptimizerKind::kSgd, .weight_decay = 0.1, .maximize = true},
      {.kind = OptimizerKind::kMomentum, .momentum = 0.9, .weight_decay = 0.1, .dampening = 0.3},
      {.kind = OptimizerKind::kAdam, .weight_decay = 0.1, .maximize = true, .amsgrad = true},
      {.kind = OptimizerKind::kAdamW, .beta2 = 0.9, .weight_decay = 0.1, .amsgrad = true},
      {.kind = OptimizerKind::kAdagrad,
       .eps = 1e-10,
       .weight_decay = 0.01,
       .lr_decay = 0.1,
       .initial_accumulator_value = 0.5},
      {.kind = OptimizerKind::kRmsprop, .weight_decay = 0.1},
      {.kind = OptimizerKind::kRmsprop, .momentum = 0.9, .alpha = 0.9, .keeps_momentum = true},
      {.kind = OptimizerKind::kRmsprop, .eps = 1e-3, .alpha = 0.9, .centered = true},
      {.kind = OptimizerKind::kRmsprop,
       .momentum = 0.8,
       .eps = 1e-3,
       .weight_decay = 0.1,
       .alpha = 0.9,
       .centered = true,
       .keeps_momentum = true},
      {.kind = OptimizerKind::kAdadelta, .eps = 1e-6, .weight_decay = 0.1},
      {.kind = OptimizerKind::kAdamax, .weight_decay = 0.1},
      {.kind = OptimizerKind::kNadam, .weight_decay = 0.1},
      {.kind = OptimizerKind::kNadam,
       .beta1 = 0.95,
       .weight_decay = 0.1,
       .momentum_decay = 0.0,
       .decoupled_weight_decay = true},
      {.kind = OptimizerKind::kRadam, .weight_decay = 0.1},
      {.kind = OptimizerKind::kRadam, .beta2 = 0.95, .weight_decay = 0.1, .decoupled_weight_decay = true},
      {.kind = OptimizerKind::kLion, .beta2 = 0.99, .weight_decay = 0.1},
  };
  return rules;
}

}  // namespace capstan::server
