#include "common/data/reduction_tree.h"

#include <algorithm>
#include <set>

#include "tests/catch.h"

namespace capstan {
namespace {

// Grows the tree by its definition: a node's left child has as many slots as the largest power of two that is less than
// the node's number of slots.
void Grow(Node node, std::vector<Node>* nodes) {
  nodes->push_back(node);
  if (node.IsLeaf()) return;
  SlotIndex half = 1;
  while (half * 2 < node.end - node.begin) half *= 2;
  Grow({node.begin, node.begin + half}, nodes);
  Grow({node.begin + half, node.end}, nodes);
}

std::vector<Node> TreeOver(SlotIndex slots) {
  std::vector<Node> nodes;
  Grow({0, slots}, &nodes);
  return nodes;
}

TEST_CASE("a node splits after the largest power of two smaller than its size", "[common][tree]") {
  CHECK(SplitPoint({0, 2}) == 1);
  CHECK(SplitPoint({0, 3}) == 2);
  CHECK(SplitPoint({0, 4}) == 2);
  CHECK(SplitPoint({0, 5}) == 4);
  CHECK(SplitPoint({0, 8}) == 4);
  CHECK(SplitPoint({0, 9}) == 8);
  CHECK(SplitPoint({4, 7}) == 6);
}

TEST_CASE("exactly the nodes of the tree are tree nodes", "[common][tree]") {
  for (SlotIndex slots = 1; slots <= 17; ++slots) {
    const std::vector<Node> tree = TreeOver(slots);
    const std::set<Node> nodes(tree.begin(), tree.end());
    REQUIRE(nodes.size() == 2 * slots - 1);
    for (SlotIndex begin = 0; begin <= slots + 1; ++begin) {
      for (SlotIndex end = 0; end <= slots + 2; ++end) {
        INFO("[" << begin << ", " << end << ") of " << slots);
        REQUIRE(ReductionTree(slots).Has({begin, end}) == nodes.contains({begin, end}));
      }
    }
  }
}

TEST_CASE("any numbers may be asked about", "[common][tree]") {
  CHECK(!ReductionTree(5).Has({UINT32_MAX, 0}));
  CHECK(!ReductionTree(5).Has({0, UINT32_MAX}));
  CHECK(!ReductionTree(0).Has({0, 0}));
  CHECK(ReductionTree(UINT32_MAX).Has({0, UINT32_MAX}));
  CHECK(ReductionTree(UINT32_MAX).Has({UINT32_MAX - 1, UINT32_MAX}));
  CHECK(!ReductionTree(UINT32_MAX).Has({UINT32_MAX - 4, UINT32_MAX}));
}

TEST_CASE("a node and its sibling are the two children of their parent", "[common][tree]") {
  for (SlotIndex slots = 2; slots <= 13; ++slots) {
    for (Node node : TreeOver(slots)) {
      if (node == Node{0, slots}) continue;
      const Node parent = ReductionTree(slots).ParentOf(node), sibling = ReductionTree(slots).SiblingOf(node);
      REQUIRE(ReductionTree(slots).Has(parent));
      REQUIRE(ReductionTree(slots).Has(sibling));
      REQUIRE(parent.Contains(node));
      REQUIRE(parent.Contains(sibling));
      REQUIRE(!node.Overlaps(sibling));
      REQUIRE(std::max(node, sibling).begin == SplitPoint(parent));
      REQUIRE(ReductionTree(slots).SiblingOf(sibling) == node);
    }
  }
}

TEST_CASE("a cover is disjoint, sorted, exact, and no two of its nodes are siblings", "[common][tree]") {
  constexpr SlotIndex kSlots = 7;
  for (unsigned subset = 0; subset < 1U << kSlots; ++subset) {
    std::vector<SlotIndex> slots, covered;
    for (SlotIndex slot = 0; slot < kSlots; ++slot) {
      if ((subset >> slot & 1U) != 0) slots.push_back(slot);
    }
    const std::vector<Node> cover = ReductionTree(kSlots).Cover(slots);
    for (Node node : cover) {
      REQUIRE(ReductionTree(kSlots).Has(node));
      for (SlotIndex slot = node.begin; slot < node.end; ++slot) covered.push_back(slot);
      if (node == Node{0, kSlots}) continue;
      REQUIRE(std::count(cover.begin(), cover.end(), ReductionTree(kSlots).SiblingOf(node)) == 0);
    }
    REQUIRE(covered == slots);
  }
}

TEST_CASE("a tree whose gradients are not added has only leaves", "[common][tree]") {
  const ReductionTree tree(5, Aggregation::kNone);
  for (Node node : TreeOver(5)) CHECK(tree.Has(node) == node.IsLeaf());
  CHECK(tree.Cover({0, 1, 3}) == std::vector<Node>{{0, 1}, {1, 2}, {3, 4}});
  CHECK(ReductionTree(1, Aggregation::kNone).Has({0, 1}));
}

}  // namespace
}  // namespace capstan
