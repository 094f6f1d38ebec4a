#include "worker/client/slot_sums.h"

#include <algorithm>

#include "common/base/status.h"

namespace capstan::client {

SlotSums::SlotSums(std::vector<SlotIndex> slots, const ReductionTree& tree)
    : slots_(std::move(slots)), tree_(tree), cover_(tree.Cover(slots_)) {}

void SlotSums::BeginSlot(std::uint64_t samples, BufferRef gradient) {
  CAPSTAN_CHECK(next_ < slots_.size());
  const SlotIndex slot = slots_[next_++];
  parts_.push_back({Node{slot, slot + 1}, samples, samples == 0 ? BufferRef() : std::move(gradient)});
  additions_.clear();
  // Two parts that are siblings in the tree become one, if their parent lies within one of the nodes that cover this
  // worker's slots.
  while (parts_.size() >= 2) {
    const Node left = parts_[parts_.size() - 2].node, right = parts_.back().node;
    const Node parent{left.begin, right.end};
    const bool inside = std::any_of(cover_.begin(), cover_.end(), [&](Node node) { return node.Contains(parent); });
    if (!inside || !tree_.Has(parent) || SplitPoint(parent) != right.begin) break;
    MergeTop();
  }
}

float SlotSums::ScaleOf(const PartialSum& part) { return part.node.IsLeaf() ? static_cast<float>(part.samples) : 1.0F; }

void SlotSums::MergeTop() {
  PartialSum right = std::move(parts_.back());
  parts_.pop_back();
  PartialSum& left = parts_.back();
  if (left.gradient && right.gradient) {
    additions_.push_back({left.gradient, right.gradient, ScaleOf(left), ScaleOf(right)});
  } else if (left.gradient || right.gradient) {  // the parent is its only non-empty child, scaled as a sum
    const PartialSum& only = left.gradient ? left : right;
    if (ScaleOf(only) != 1.0F) additions_.push_back({only.gradient, BufferRef(), ScaleOf(only), 0.0F});
    if (right.gradient) left.gradient = std::move(right.gradient);
  }
  left.node.end = right.node.end;
  left.samples += right.samples;
}

void SlotSums::RangeReady(std::uint64_t first, std::uint64_t count) {
  for (const Addition& addition : additions_) {
    float* __restrict target = addition.target.As<float>() + first;
    const float a = addition.target_scale, b = addition.source_scale;
    if (!addition.source) {
      for (std::uint64_t i = 0; i < count; ++i) target[i] *= a;
      continue;
    }
    const float* __restrict source = addition.source.As<const float>() + first;
    for (std::uint64_t i = 0; i < count; ++i) target[i] = target[i] * a + source[i] * b;
  }
}

}  // namespace capstan::client
