// ReduceAndUpdate: one fused pass over a block that combines its contributions and runs the optimizer.
//
// Shapes: every array has the block's elements; segments are ranges of the block and cover it.
// Types:  fp32; a leaf's values may be 16-bit numbers; sums of squares in double. Payloads need no alignment.
// Parity: per element, each operation rounded to fp32: tree sum, * mean_scale, limit, * clip, L2 decay, optimizer. A
//         group that maximizes negates the clipped gradient. Statistics:
//         mean = tree sum * statistic_scale, then w + (mean - w) * kStatisticMomentum. A job may have the slots' median
//         in place of the tree sum (median.h). The bits do not depend on which nodes of the tree are given, on tiles,
//         or on SIMD width. Formulas are PyTorch's where PyTorch has the optimizer.
// Limits: no allocation. ReduceAndUpdate uses less than 5 KiB of stack for each level of the reduction tree, and 40 KiB
//         besides, or 90 KiB for a median; AddNodes less than 10 KiB.
// Why:    the update is bound by memory, so every array is read once and written once, and what workers pull is made in
//         the same pass. `capstan bench apply` compares the update's speed with a copy's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/base/hash.h"
#include "common/base/types.h"
#include "common/data/catalog.h"
#include "common/data/reduction_tree.h"
#include "update/optimizer.h"

namespace capstan {

inline constexpr int kStatesMax = 3;

// The factors of one update; they change with every update.
struct UpdateScalars {
  std::uint64_t step = 1;                    // number of this update, from 1; skipped steps do not count
  float mean_scale = 1.0F;                   // float(1 / (samples * loss scale)), computed once in double; see IsMean
  float statistic_scale = 1.0F;              // float(1 / samples)
  float clip = 1.0F;                         // factor of clipping by global norm; 1 or more: no clipping
  float clip_value = 0.0F;                   // limit of each element's magnitude; 0: no limit
  std::span<const float> trust_ratios = {};  // lars, lamb: one per tensor of the catalog; empty: all are 1
};

// The check of an input whose memory another process can change: the values that were read must have the sender's hash.
struct CheckedRead {
  std::uint64_t wanted = 0;  // the XXH3-64 of the values
  Hasher read;               // of the values as they were read

  bool passed() const { return read.Digest() == wanted; }
};

// One node of the reduction tree and its value. For a leaf (one slot) `values` is the slot's mean gradient, and the
// node's value is values * fp32(samples). For a node above, `values` is the sum of its leaves' values, which is the
// node's value. A node with samples 0 has no value, and `values` is not read.
struct StagedInput {
  Node node;
  std::uint64_t samples = 0;
  const std::byte* values = nullptr;
  Encoding encoding = Encoding::kFp32;  // encoding of a leaf; sums are fp32
  // Not null: the values may change at any time. The pass then reads each value once, and adds the bytes that it read
  // to this check. The caller discards all results if the check does not pass. TakesChecks: whether it is allowed.
  CheckedRead* check = nullptr;
};

// One tensor's part of a block.
struct SegmentRange {
  std::uint32_t offset = 0;  // first element within the block
  std::uint32_t count = 0;
  bool decay = true;        // whether weight decay applies
  std::uint32_t group = 0;  // index of the segment's rule
  TensorKind kind = TensorKind::kParameter;
  std::uint32_t tensor = 0;  // the segment's tensor in the catalog, whose trust ratio applies
};

// The arrays that an update reads. Only the first StateCount(rule) elements of `state` are used.
struct BlockIn {
  const float* weights = nullptr;
  const float* state[kStatesMax] = {};
};

// How results are written to memory. With kStreaming a cache line is written without being read first. That is faster
// if a step's arrays do not stay in the caches until the next step. The path changes no bit of the results.
enum class WritePath { kCached, kStreaming };
// Returns the faster path if one update of all blocks touches this many bytes, all arrays together.
WritePath WritePathFor(std::uint64_t bytes_per_update);

// Where an update puts the bytes that workers pull: the new weights as they are, or as 16-bit numbers. The hash is of
// these bytes.
struct WeightsToSend {
  Hasher* hasher = nullptr;  // receives the bytes that workers pull; null: they are not made now
  Encoding encoding = Encoding::kFp32;
  std::byte* narrow = nullptr;  // receives the 16-bit numbers, if the encoding has 16 bits
};

// The arrays that an update writes. For an update in place they may be BlockIn's arrays; otherwise they must not
// overlap BlockIn's arrays.
struct BlockOut {
  float* weights = nullptr;
  float* state[kStatesMax] = {};
  float* sum = nullptr;  // receives the tree sum for UpdateFromSum, unless null
  WritePath path = WritePath::kCached;
  WeightsToSend to_send = {};  // requires segments that cover the block in order
};

// The sums of squares of each segment that lars and lamb need: of the weights before the update, and of the direction.
// The direction is the clipped gradient (lars) or Adam's direction (lamb), each with the weight decay added; it does
// not depend on a trust ratio. For statistics both sums are 0. Empty spans are not filled; other optimizers write
// nothing.
struct TrustSquares {
  std::span<double> weights;
  std::span<double> direction;
};

// Adds the values of two sibling nodes; the sum is their parent's value. If one side has samples 0, the result is the
// value of the side that has samples. If both have samples 0, nothing is written. `out` may be an input's fp32 values.
void AddNodes(const StagedInput& left, const StagedInput& right, std::size_t count, float* out);

// Combines the nodes of `cover` and updates the block. `cover`: disjoint nodes that together cover all slots of `tree`,
// from left to right; at least one has samples. `rules`: all of one optimizer kind, indexed by SegmentRange::group.
// segment_squares[i] receives the sum of squares of the averaged, unclipped gradient of segments[i] (0 for statistics);
// the sum is not finite if a value is not.
void ReduceAndUpdate(std::span<const GroupRule> rules, const UpdateScalars& scalars, std::span<const StagedInput> cover,
                     const ReductionTree& tree, std::span<const SegmentRange> segments, const BlockIn& in,
                     const BlockOut& out, std::span<double> segment_squares, const TrustSquares& trust = {});

// Whether ReduceAndUpdate takes checks of these inputs. If one has a check, the segments must cover the block in order.
bool TakesChecks(std::span<const StagedInput> cover, Aggregation aggregation);

// Runs the update again with other scalars. `sum` is what ReduceAndUpdate wrote to BlockOut::sum.
void UpdateFromSum(std::span<const GroupRule> rules, const UpdateScalars& scalars, const float* sum,
                   std::span<const SegmentRange> segments, const BlockIn& in, const BlockOut& out,
                   const TrustSquares& trust = {});

}  // namespace capstan
