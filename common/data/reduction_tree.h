// ReductionTree: the fixed binary tree over a job's slots along which gradients are added.
//
// Kind:   values and pure functions.
// Why:    floating-point addition is not associative. Adding along one fixed tree makes the sum a function of the slots
//         only, whichever worker computed a slot and whenever it arrived.
//
// A node of more than one slot has two children. The left one has as many slots as the largest power of two below the
// node's number of slots; the right one has the rest.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/aggregation.h"
#include "common/base/types.h"

namespace capstan {

struct Node {
  SlotIndex begin = 0;
  SlotIndex end = 0;
  auto operator<=>(const Node&) const = default;

  bool IsLeaf() const { return end - begin == 1; }
  bool Contains(Node other) const { return begin <= other.begin && other.end <= end; }
  bool Overlaps(Node other) const { return begin < other.end && other.begin < end; }
};

// Returns the first slot of the node's right child. Requires a node of two or more slots.
SlotIndex SplitPoint(Node node);

// The nodes whose gradients workers may push: those of the whole tree if gradients are added, else only its leaves.
class ReductionTree {
 public:
  constexpr explicit ReductionTree(SlotIndex slots, Aggregation aggregation = Aggregation::kMean)
      : slots_(slots), aggregation_(aggregation) {}

  constexpr SlotIndex slots() const { return slots_; }
  constexpr Aggregation aggregation() const { return aggregation_; }
  constexpr Node root() const { return {0, slots_}; }

  // Whether a gradient of `node` may be pushed. Any numbers may be asked about.
  bool Has(Node node) const;
  // Returns the node whose child `node` is. Requires a node of the whole tree other than its root.
  Node ParentOf(Node node) const;
  // Returns the other child of ParentOf(node).
  Node SiblingOf(Node node) const;
  // Returns the fewest disjoint nodes that may be pushed and cover exactly the given sorted, distinct slots, from left
  // to right.
  std::vector<Node> Cover(const std::vector<SlotIndex>& slots) const;

 private:
  SlotIndex slots_;
  Aggregation aggregation_;
};

}  // namespace capstan
