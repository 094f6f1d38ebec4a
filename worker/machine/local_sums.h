// LocalHead, PlanLocalSums, PackPart, AddUp: which gradients of a machine's workers become which nodes of the tree, how
// they travel to the first of them, and the sums.
//
// Kind:   values and pure functions.
// Parity: AddUp adds as a shard would: siblings of the job's tree, left to right.
// Why:    all members decide from the same heads, so nobody has to be told what was decided.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "update/block_update.h"
#include "worker/collective/buckets.h"

namespace capstan::train {

// What one worker brings to a step.
struct LocalHead {
  static constexpr std::size_t kPartsMax = 4;  // of a worker; one with more pushes by itself
  static constexpr std::size_t kFloats = 6 + 3 * kPartsMax;
  struct Part {
    Node node;
    std::uint64_t samples = 0;
    bool operator==(const Part&) const = default;
  };

  Generation generation;
  Step step;
  bool joins = false;  // false: it pushes by itself
  std::vector<Part> parts;

  // Bits in the place of floats, which are copied alone.
  void Write(std::span<float> words) const;
  static LocalHead Read(std::span<const float> words);
};

struct LocalPlan {
  struct Part {
    int rank = 0;
    std::size_t number = 0;  // among that worker's
    Node node;
    std::uint64_t samples = 0;
  };
  struct Sum {
    Node node;
    std::uint64_t samples = 0;
    bool operator==(const Sum&) const = default;
  };
  std::vector<Part> parts;     // by slot
  std::vector<Sum> sums;       // what is pushed for all; none: each pushes by itself
  std::size_t parts_each = 0;  // of one worker, at most
};

// `heads` by rank. All of them join, in one step; else, and where nothing would be saved, there are no sums.
LocalPlan PlanLocalSums(const std::vector<LocalHead>& heads, SlotIndex slot_count);

// What the values of a node are in: a leaf's as they travel to the shards, sums in fp32. `encoding`: the job's.
inline Encoding PartEncoding(Node node, const Bucket& bucket, Encoding encoding) {
  return node.IsLeaf() && !bucket.statistics ? encoding : Encoding::kFp32;
}
// The floats that hold any worker's part of that number of a bucket.
std::size_t PartFloats(const LocalPlan& plan, std::size_t number, const Bucket& bucket, Encoding encoding);
// Puts the numbers of a bucket one behind the other, as they travel. `flat`: of all tensors, in which each block's lie at
// the front of its place; `node`: whose they are.
void PackPart(const Catalog& catalog, const Bucket& bucket, Node node, Encoding encoding, const std::byte* flat,
              std::byte* packed);

// The value of `node`, of which `parts` hold all slots: a part itself, or a sum in `out`, which has room for `count`
// floats. `adder.Add` is AddNodes; `adder.Spare(depth, count)` is memory for as many, of its own for each depth.
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

}  // namespace capstan::train
