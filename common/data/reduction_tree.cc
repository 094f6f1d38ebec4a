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

void AddCover(Node node, const std::vector<bool>& wanted, const ReductionTree& tree, std::vector<Node>* cover) {
  bool all = true, any = false;
  for (SlotIndex slot = node.begin; slot < node.end; ++slot) {
    all = all && wanted[slot];
    any = any || wanted[slot];
  }
  if (!any) return;
  if (all && (node.IsLeaf() || AddsGradients(tree.aggregation()))) return cover->push_back(node);
  const SlotIndex split = SplitPoint(node);
  AddCover({node.begin, split}, wanted, tree, cover);
  AddCover({split, node.end}, wanted, tree, cover);
}

}  // namespace

bool ReductionTree::Has(Node node) const {
  return FindParent(node, slots_) != Node{} && (node.IsLeaf() || AddsGradients(aggregation_));
}

Node ReductionTree::ParentOf(Node node) const {
  const Node parent = FindParent(node, slots_);
  CAPSTAN_CHECK(parent != Node{} && parent != node);
  return parent;
}

Node ReductionTree::SiblingOf(Node node) const {
  const Node parent = ParentOf(node);
  return parent.begin == node.begin ? Node{node.end, parent.end} : Node{parent.begin, node.begin};
}

std::vector<Node> ReductionTree::Cover(const std::vector<SlotIndex>& slots) const {
  std::vector<bool> wanted(slots_, false);
  for (SlotIndex slot : slots) {
    CAPSTAN_CHECK(slot < slots_);
    wanted[slot] = true;
  }
  std::vector<Node> cover;
  if (slots_ > 0) AddCover(root(), wanted, *this, &cover);
  return cover;
}

}  // namespace capstan
