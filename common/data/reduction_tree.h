// The fixed binary tree over a job's slots along which gradients are added.
//
// Kind:   values and pure functions.
// Why:    floating-point addition is not associative. Adding along one fixed tree makes the sum a function of the slots
//         only, whichever worker computed a slot and whenever it arrived.
//
// Node [begin, end) with more than one slot splits after the largest power of two smaller than its size.
#pragma once

#include <cstdint>
#include <vector>

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

// Returns the first slot of the right child. Requires a node of two or more slots.
SlotIndex SplitPoint(Node node);

// Whether `node` is a node of the tree over slots [0, slot_count).
bool IsTreeNode(Node node, SlotIndex slot_count);

// Returns the node whose child `node` is. Requires a tree node that is not the root.
Node ParentOf(Node node, SlotIndex slot_count);
// Returns the other child of ParentOf(node).
Node SiblingOf(Node node, SlotIndex slot_count);

// Returns the fewest disjoint tree nodes that cover exactly the given sorted, distinct slots, from left to right.
std::vector<Node> CoverSlots(const std::vector<SlotIndex>& slots, SlotIndex slot_count);

}  // namespace capstan
