// MachineHead, PlanMachineSums, PackPart, AddBlock, PushOfSum: which gradients of a machine's workers form which nodes
// of the tree, how they are sent to the first worker, and how they are added and pushed.
//
// Kind:   values and pure functions.
// Parity: AddUp adds as a shard does: along the job's reduction tree, left child + right child.
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

// What a worker tells the others about its part of a step: the tree nodes and samples of its gradients.
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
  bool joins = false;  // whether this worker takes part in the sums; if not, it pushes by itself
  std::vector<Part> parts;

  // Writes the bits of all fields to `words`, kFloats floats that are sent but never computed with.
  void Write(std::span<float> words) const;
  static MachineHead Read(std::span<const float> words);
};

struct MachinePlan {
  struct Part {
    int rank = 0;
    std::size_t number = 0;  // index in the `parts` of that worker's head
    Node node;
    std::uint64_t samples = 0;
  };
  struct Sum {
    Node node;
    std::uint64_t samples = 0;
    bool operator==(const Sum&) const = default;
  };
  std::vector<Part> parts;     // in slot order
  std::vector<Sum> sums;       // the pushes of the whole group; empty: each worker pushes by itself
  std::size_t parts_each = 0;  // most parts of one worker
};

// `heads` by rank. The plan has sums only if all heads join, name the same generation and step, and share no slot, and
// if there are fewer sums than parts.
MachinePlan PlanMachineSums(const std::vector<MachineHead>& heads, SlotIndex slot_count);

// The encoding in which a node's values are sent: a leaf (one slot) in the job's `encoding`, except statistics; a
// larger node is a sum, in fp32.
inline Encoding PartEncoding(Node node, const Bucket& bucket, Encoding encoding) {
  return node.IsLeaf() && !bucket.statistics ? encoding : Encoding::kFp32;
}
// How many floats hold any worker's part `number` of the bucket: each rank sends that many, whatever its encoding.
std::size_t PartFloats(const MachinePlan& plan, std::size_t number, const Bucket& bucket, Encoding encoding);
// Copies a bucket's values of `node` to `packed` without gaps. `flat` has 4 bytes per element of the model; 16-bit
// values fill only the front half of their block's place.
void PackPart(const Catalog& catalog, const Bucket& bucket, Node node, Encoding encoding, const std::byte* flat,
              std::byte* packed);

// Returns the value of `node`, whose slots `parts` cover. It is one of the parts, or a sum in `out`, which has room for
// `count` floats. `adder.Add` adds as AddNodes does. `adder.Spare(depth, count)` returns memory for `count` floats,
// separate for each depth.
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

// Adds up a block's parts into `sums`: flat arrays, in the order of plan.sums. Values that stay 16-bit fill the front
// of the block's place.
void AddBlock(const MachinePlan& plan, std::span<const StagedInput> parts, const Block& block,
              std::span<float* const> sums, HostAddition* addition);

// Returns the push of a block's sum, which AddBlock has written to `flat`. `encoding`: the job's.
session::Gradient PushOfSum(const client::MachineRound& round, const MachinePlan::Sum& sum, const BufferRef& flat,
                            const Block& block, BlockIndex index, Encoding encoding);

}  // namespace capstan::train
