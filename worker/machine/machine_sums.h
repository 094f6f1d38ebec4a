// MachineHead, PlanMachineSums, PackPart, AddBlock, PushOfSum: which gradients of a machine's workers form which nodes of
// the tree, how they are sent to the first worker, and how they are added and pushed.
//
// Kind:   values and pure functions.
// Parity: AddUp adds as a shard does: siblings of the job's tree, left to right.
// Why:    all members compute the plan from the same heads, so it need not be sent.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "update/block_update.h"
#include "worker/client/machine_round.h"
#include "worker/collective/buckets.h"
#include "worker/session/gradient.h"

namespace capstan::train {

// One worker's contribution to a step.
struct MachineHead {
  static constexpr std::size_t kPartsMax = 4;  // parts of one worker; a worker with more pushes by itself
  static constexpr std::size_t kFloats = 6 + 3 * kPartsMax;
  struct Part {
    Node node;
    std::uint64_t samples = 0;
    bool operator==(const Part&) const = default;
  };

  Generation generation;
  Step step;
  bool joins = false;  // false: this worker pushes by itself
  std::vector<Part> parts;

  // Stores the bits in an array of floats, which is only copied.
  void Write(std::span<float> words) const;
  static MachineHead Read(std::span<const float> words);
};

struct MachinePlan {
  struct Part {
    int rank = 0;
    std::size_t number = 0;  // index among that worker's parts
    Node node;
    std::uint64_t samples = 0;
  };
  struct Sum {
    Node node;
    std::uint64_t samples = 0;
    bool operator==(const Sum&) const = default;
  };
  std::vector<Part> parts;     // in slot order
  std::vector<Sum> sums;       // pushed for the whole group; empty: each worker pushes by itself
  std::size_t parts_each = 0;  // most parts of one worker
};

// `heads` by rank. The plan has sums only if all heads join, in the same step, and the sums save pushes.
MachinePlan PlanMachineSums(const std::vector<MachineHead>& heads, SlotIndex slot_count);

// The encoding of a node's values: a leaf is encoded as it is sent to shards, a sum is fp32. `encoding`: the job's.
inline Encoding PartEncoding(Node node, const Bucket& bucket, Encoding encoding) {
  return node.IsLeaf() && !bucket.statistics ? encoding : Encoding::kFp32;
}
// The floats needed to hold any worker's part `number` of a bucket.
std::size_t PartFloats(const MachinePlan& plan, std::size_t number, const Bucket& bucket, Encoding encoding);
// Copies a bucket's values of `node` without gaps, as they are sent. `flat` covers all tensors; each block's values lie
// at the front of the block's place.
void PackPart(const Catalog& catalog, const Bucket& bucket, Node node, Encoding encoding, const std::byte* flat,
              std::byte* packed);

// Returns the value of `node`, whose slots `parts` cover: one of the parts, or a sum in `out`, which has room for
// `count` floats. `adder.Add` is AddNodes. `adder.Spare(depth, count)` returns memory for `count` floats, separate for
// each depth.
template <class Adder>
StagedInput AddUp(Node node, std::span<const StagedInput> parts, std::size_t count, float* out, Adder& adder,
                  std::size_t depth = 0) {
  for (const StagedInput& part : parts) {
    if (part.node == node) return part;
  }
  const SlotIndex split = SplitPoint(node);
  const StagedInput left = AddUp({node.begin, split}, parts, count, out, adder, depth + 1);
  const StagedInput right = AddUp({split, node.end}, parts, count, adder.Spare(depth, count), adder, depth + 1);
  adder.Add(left, right, count, out);
  return {node, left.samples + right.samples, reinterpret_cast<const std::byte*>(out), Encoding::kFp32};
}

class HostAddition {
 public:
  float* Spare(std::size_t depth, std::size_t count) {
    if (spare_.size() <= depth) spare_.resize(depth + 1);
    spare_[depth].resize(std::max(spare_[depth].size(), count));
    return spare_[depth].data();
  }
  void Add(const StagedInput& left, const StagedInput& right, std::size_t count, float* out) const {
    AddNodes(left, right, count, out);
  }

 private:
  std::vector<std::vector<float>> spare_;
};

// Adds up a block's parts. `sums`: flat arrays, by sum of the plan; the block's values come to the front of its place.
void AddBlock(const MachinePlan& plan, std::span<const StagedInput> parts, const Block& block,
              std::span<float* const> sums, HostAddition* addition);

// The push of a block's sum that AddBlock left in `flat`. `encoding`: the job's.
session::Gradient PushOfSum(const client::MachineRound& round, const MachinePlan::Sum& sum, const BufferRef& flat,
                            const Block& block, BlockIndex index, Encoding encoding);

}  // namespace capstan::train
