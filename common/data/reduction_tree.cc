#include "common/data/reduction_tree.h"

#include <bit>
#include <utility>

#include "common/base/status.h"

namespace capstan {

SlotIndex SplitPoint(Node node) {
  CAPSTAN_CHECK(node.end - node.begin >= 2);
  return node.begin + std::bit_floor(node.end - node.begin - 1);
}

namespace {

// Walks from the root to `node`; returns its parent, or the node itself when it is the root, or an empty node when
// `node` is not in the tree.
Node FindParent(Node node, SlotIndex slot_count) {
  if (node.begin >= node.end || node.end > slot_count) return {};
  Node at{0, slot_count};
  if (at == node) return at;
  while (!at.IsLeaf()) {
    const SlotIndex split = SplitPoint(at);
    const Node child = node.begin < split ? Node{at.begin, split} : Node{split, at.end};
    if (child == node) return at;
    if (!child.Contains(node)) return {};
    at = child;
  }
  return {};
}

void Cover(Node node, const std::vector<bool>& wanted, std::vector<Node>* cover) {
  bool all = true, any = false;
  for (SlotIndex slot = node.begin; slot < node.end; ++slot) {
    all = all && wanted[slot];
    any = any || wanted[slot];
  }
  if (all) cover->push_back(node);
  if (all || !any) return;
  const SlotIndex split = SplitPoint(node);
  Cover({node.begin, split}, wanted, cover);
  Cover({split, node.end}, wanted, cover);
}

}  // namespace

bool IsTreeNode(Node node, SlotIndex slot_count) { return FindParent(node, slot_count) != Node{}; }

Node ParentOf(Node node, SlotIndex slot_count) {
  const Node parent = FindParent(node, slot_count);
  CAPSTAN_CHECK(parent != Node{} && parent != node);
  return parent;
}

Node SiblingOf(Node node, SlotIndex slot_count) {
  const Node parent = ParentOf(node, slot_count);
  return parent.begin == node.begin ? Node{node.end, parent.end} : Node{parent.begin, node.begin};
}

std::vector<Node> CoverSlots(const std::vector<SlotIndex>& slots, SlotIndex slot_count) {
  std::vector<bool> wanted(slot_count, false);
  for (SlotIndex slot : slots) {
    CAPSTAN_CHECK(slot < slot_count);
    wanted[slot] = true;
  }
  std::vector<Node> cover;
  if (slot_count > 0) Cover({0, slot_count}, wanted, &cover);
  return cover;
}

}  // namespace capstan
