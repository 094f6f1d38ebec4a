// ReduceAndUpdate: one fused pass over a block that adds its contributions and runs the optimizer.
//
// Shapes: every array has the block's elements; segments are ranges of it, and the block is the union of them.
// Types:  fp32; a leaf's values may be 16-bit numbers; sums of squares in double. Payloads need no alignment.
// Parity: per element, each operation rounded to fp32: tree sum, * mean_scale, * clip, L2 decay, optimizer.
//         The bits do not depend on how the cover cuts the tree, on tiles, or on SIMD width. Formulas are PyTorch's,
//         where it has them. Statistics: tree sum, * statistic_scale, and w + (that - w) * kStatisticMomentum.
// Limits: no allocation; stack below 10 KiB per level of the reduction tree.
// Why:    the update is bound by memory, so every array is read once and written once; `capstan bench apply` shows how
//         near that comes to what memory gives.
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

// What changes from update to update.
struct UpdateScalars {
  std::uint64_t step = 1;                    // counts applied updates (skipped ones not); 1 for the first
  float mean_scale = 1.0F;                   // float(1 / (samples * loss scale)), computed once in double
  float statistic_scale = 1.0F;              // float(1 / samples)
  float clip = 1.0F;                         // factor of clipping by global norm; 1 or more: none
  std::span<const float> trust_ratios = {};  // lars, lamb: by tensor of the catalog; empty: all of them 1
};

// The value of one node of the tree. A leaf carries its slot's mean gradient, its value is values * fp32(samples); a
// node above carries the sum of its leaves' values. samples 0: no value, `values` is not looked at.
struct StagedInput {
  Node node;
  std::uint64_t samples = 0;
  const std::byte* values = nullptr;
  Encoding encoding = Encoding::kFp32;  // of a leaf; sums are fp32
};

// One tensor's part of a block.
struct SegmentRange {
  std::uint32_t offset = 0;  // within the block
  std::uint32_t count = 0;
  bool decay = true;        // whether weight decay applies
  std::uint32_t group = 0;  // whose rule it is: an index
  TensorKind kind = TensorKind::kParameter;
  std::uint32_t tensor = 0;  // of the catalog: whose trust ratio it takes
};

// Arrays beyond StateCount(kind) are not looked at.
struct BlockIn {
  const float* weights = nullptr;
  const float* state[kStatesMax] = {};
};

// Where results go on their way to memory. Streaming spares the read that a cache makes of each line before it is
// written, and pays when nothing of a step is still in the caches at the next one. It changes no bit.
enum class WritePath { kCached, kStreaming };
// The better one for a shard whose update touches this many bytes, all arrays of all blocks together.
WritePath WritePathFor(std::uint64_t bytes_per_update);

// May be the same arrays as BlockIn's, for an update in place; may not overlap them in any other way.
struct BlockOut {
  float* weights = nullptr;
  float* state[kStatesMax] = {};
  float* sum = nullptr;  // the tree sum, kept for UpdateFromSum; null: not wanted
  WritePath path = WritePath::kCached;
};

// What lars and lamb want to know of a tensor, of each segment: sums of squares of the weights before the update and of
// the direction, which is what the weights go along before rate, ratio and momentum (it follows from the clipped
// gradient, the weights and the states; not from a ratio); of statistics 0. Empty: not wanted. Other optimizers leave
// them as they are.
struct TrustSquares {
  std::span<double> weights;
  std::span<double> direction;
};

// The sum of two siblings, as their parent's value. With samples 0 on one side the parent is the other's value alone;
// with samples 0 on both, nothing is written. `out` may be one of the inputs.
void AddNodes(const StagedInput& left, const StagedInput& right, std::size_t count, float* out);

// `cover`: disjoint nodes of the tree over [0, slots), from left to right, that cover it; some samples are not 0.
// `rules`: of one kind, one for each group that a segment names.
// segment_squares[i]: sum of squares of the averaged, unclipped gradient of segments[i]; of statistics 0. Non-finite
// when a value is.
void ReduceAndUpdate(std::span<const GroupRule> rules, const UpdateScalars& scalars, std::span<const StagedInput> cover,
                     SlotIndex slots, std::span<const SegmentRange> segments, const BlockIn& in, const BlockOut& out,
                     std::span<double> segment_squares, const TrustSquares& trust = {});

// The same update again from the kept sum, with other scalars.
void UpdateFromSum(std::span<const GroupRule> rules, const UpdateScalars& scalars, const float* sum,
                   std::span<const SegmentRange> segments, const BlockIn& in, const BlockOut& out,
                   const TrustSquares& trust = {});

}  // namespace capstan
