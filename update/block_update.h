// ReduceAndUpdate: one fused pass over a block that adds its contributions and runs the optimizer.
//
// Shapes: every array has the block's elements; segments are ranges of the block and cover it.
// Types:  fp32; a leaf's values may be 16-bit numbers; sums of squares in double. Payloads need no alignment.
// Parity: per element, each operation rounded to fp32: tree sum, * mean_scale, * clip, L2 decay, optimizer.
//         Statistics: mean = tree sum * statistic_scale, then w + (mean - w) * kStatisticMomentum.
//         The bits do not depend on how the cover cuts the tree, on tiles, or on SIMD width. Formulas are PyTorch's
//         where PyTorch has the optimizer.
// Limits: no allocation; stack below 10 KiB per level of the reduction tree.
// Why:    the update is bound by memory, so every array is read once and written once; `capstan bench apply` compares
//         its speed with memory's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/types.h"
#include "common/data/catalog.h"
#include "common/data/reduction_tree.h"
#include "update/optimizer.h"

namespace capstan {

inline constexpr int kStatesMax = 2;

// Numbers that change with every update.
struct UpdateScalars {
  std::uint64_t step = 1;                    // number of this update, from 1; skipped steps do not count
  float mean_scale = 1.0F;                   // float(1 / (samples * loss scale)), computed once in double
  float statistic_scale = 1.0F;              // float(1 / samples)
  float clip = 1.0F;                         // factor of clipping by global norm; 1 or more: no clipping
  std::span<const float> trust_ratios = {};  // lars, lamb: one per tensor of the catalog; empty: all are 1
};

// The value of one node of the tree. A leaf carries its slot's mean gradient, and its value is values * fp32(samples).
// A node above carries the sum of its leaves' values. With samples 0 there is no value, and `values` is not read.
struct StagedInput {
  Node node;
  std::uint64_t samples = 0;
  const std::byte* values = nullptr;
  Encoding encoding = Encoding::kFp32;  // encoding of a leaf; sums are fp32
};

// One tensor's part of a block.
struct SegmentRange {
  std::uint32_t offset = 0;  // within the block
  std::uint32_t count = 0;
  bool decay = true;        // whether weight decay applies
  std::uint32_t group = 0;  // index of its rule
  TensorKind kind = TensorKind::kParameter;
  std::uint32_t tensor = 0;  // its tensor in the catalog, which has its trust ratio
};

// State arrays beyond StateCount(kind) are not read.
struct BlockIn {
  const float* weights = nullptr;
  const float* state[kStatesMax] = {};
};

// How results are written. Streaming avoids that the cache reads each line before writing it; it is faster when a
// step's arrays do not stay in the caches until the next step. It changes no bit.
enum class WritePath { kCached, kStreaming };
// The faster path for a shard whose update touches this many bytes, all arrays of all blocks together.
WritePath WritePathFor(std::uint64_t bytes_per_update);

// For an update in place, the arrays may be BlockIn's. They must not overlap them in any other way.
struct BlockOut {
  float* weights = nullptr;
  float* state[kStatesMax] = {};
  float* sum = nullptr;  // receives the tree sum for UpdateFromSum, unless null
  WritePath path = WritePath::kCached;
};

// Sums of squares per segment that lars and lamb need: of the weights before the update, and of the update's direction
// before rate, ratio and momentum. The direction depends on the clipped gradient, the weights and the states, not on a
// ratio. Statistics have 0. Empty spans are not filled, and other optimizers write nothing.
struct TrustSquares {
  std::span<double> weights;
  std::span<double> direction;
};

// The sum of two siblings, as their parent's value. If one side has samples 0, the result is the other side's value; if
// both have, nothing is written. `out` may be one of the inputs.
void AddNodes(const StagedInput& left, const StagedInput& right, std::size_t count, float* out);

// `cover`: disjoint nodes that cover the tree over [0, slots), from left to right; at least one has samples.
// `rules`: all of one kind, one for each group that a segment names.
// segment_squares[i]: sum of squares of the averaged, unclipped gradient of segments[i]; 0 for statistics; not finite
// if a value is not.
void ReduceAndUpdate(std::span<const GroupRule> rules, const UpdateScalars& scalars, std::span<const StagedInput> cover,
                     SlotIndex slots, std::span<const SegmentRange> segments, const BlockIn& in, const BlockOut& out,
                     std::span<double> segment_squares, const TrustSquares& trust = {});

// Runs the update again from the kept sum, with other scalars.
void UpdateFromSum(std::span<const GroupRule> rules, const UpdateScalars& scalars, const float* sum,
                   std::span<const SegmentRange> segments, const BlockIn& in, const BlockOut& out,
                   const TrustSquares& trust = {});

}  // namespace capstan
