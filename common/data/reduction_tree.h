// The fixed binary tree over a job's slots along which gradients are added.
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

// Whether `node` is a node of the tree over slots [0, slot_count).
bool IsTreeNode(Node node, SlotIndex slot_count);

// Returns the parent of `node`. Requires a node of the tree that is not the root.
Node ParentOf(Node node, SlotIndex slot_count);
// Returns the other child of ParentOf(node).
Node SiblingOf(Node node, SlotIndex slot_count);

// Returns the fewest disjoint nodes of the tree that together cover exactly the given slots, from left to right.
std::vector<Node> CoverSlots(const std::vector<SlotIndex>& slots, SlotIndex slot_count);

}  // namespace capstan
