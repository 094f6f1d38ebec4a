#include "server/shard/staged_block.h"

#include <algorithm>

namespace capstan::server {

bool StagedBlock::Covers(Node node) const {
  return complete_ || std::any_of(contributions_.begin(), contributions_.end(),
                                  [&](const Contribution& contribution) { return contribution.node.Contains(node); });
}

StagedBlock::Added StagedBlock::Add(Pushed pushed, const ReductionTree& tree, std::uint32_t count, BufferPool* sums) {
  const Node node = pushed.node;
  if (Covers(node)) return Compare(pushed);
  seen_.push_back({pushed.session, node, pushed.samples, pushed.payload_hash});
  std::erase_if(contributions_, [&](const Contribution& contribution) { return node.Contains(contribution.node); });
  Insert({node, pushed.samples, std::move(pushed.payload), pushed.encoding, false});
  MergeAround(node, tree, count, sums);
  SlotIndex covered = 0;
  for (const Contribution& contribution : contributions_) covered += contribution.node.end - contribution.node.begin;
  complete_ = covered == tree.slots();
  return {};
}

StagedBlock::Added StagedBlock::Compare(const Pushed& pushed) const {
  for (const Seen& seen : seen_) {
    if (seen.node != pushed.node) continue;
    if (seen.samples != pushed.samples) return {Outcome::kDisagrees, seen.session, seen.samples};
    const bool same = seen.payload_hash == pushed.payload_hash;
    return {same ? Outcome::kAlreadyStaged : Outcome::kMismatch, seen.session, 0};
  }
  for (const Contribution& contribution : contributions_) {  // this node may have been summed from others
    if (contribution.node == pushed.node && contribution.samples != pushed.samples)
      return {Outcome::kDisagrees, {}, contribution.samples};
  }
  const bool is_all = complete_ && !contributions_.empty() && pushed.node.begin == contributions_.front().node.begin &&
                      pushed.node.end == contributions_.back().node.end;
  if (is_all && samples() != pushed.samples) return {Outcome::kDisagrees, {}, samples()};
  return {Outcome::kAlreadyStaged, {}, 0};
}

void StagedBlock::Insert(Contribution contribution) {
  const auto place =
      std::lower_bound(contributions_.begin(), contributions_.end(), contribution,
                       [](const Contribution& a, const Contribution& b) { return a.node.begin < b.node.begin; });
  contributions_.insert(place, std::move(contribution));
}

// Adds `node` and its sibling, if both are here, then their sum and its sibling, and so on. Stops below the root, whose
// children the update adds.
void StagedBlock::MergeAround(Node node, const ReductionTree& tree, std::uint32_t count, BufferPool* sums) {
  while (node != tree.root()) {
    const Node parent = tree.ParentOf(node);
    if (parent == tree.root() || !tree.Has(parent)) return;
    const Node sibling = tree.SiblingOf(node);
    const Node left = std::min(node, sibling);
    const auto at = std::find_if(contributions_.begin(), contributions_.end(),
                                 [&](const Contribution& contribution) { return contribution.node == left; });
    if (at == contributions_.end() || at + 1 == contributions_.end() || (at + 1)->node != std::max(node, sibling))
      return;
    *at = Merge(*at, *(at + 1), count, sums);
    contributions_.erase(at + 1);
    node = parent;
  }
}

StagedBlock::Contribution StagedBlock::Merge(const Contribution& left, const Contribution& right, std::uint32_t count,
                                             BufferPool* sums) {
  const Node parent{left.node.begin, right.node.end};
  const std::uint64_t samples = left.samples + right.samples;
  if (samples == 0) return {parent, 0, {}, Encoding::kFp32, false};
  // A sum that this object made (`pooled`) has no other reference, so its buffer takes the new sum.
  BufferRef out = left.pooled ? left.payload.owner : right.pooled ? right.payload.owner : sums->Take();
  AddNodes(left.Input(), right.Input(), count, out.As<float>());
  const std::byte* data = out->data();
  return {parent, samples, Slice{std::move(out), data, count * sizeof(float)}, Encoding::kFp32, true};
}

std::uint64_t StagedBlock::samples() const {
  std::uint64_t samples = 0;
  for (const Contribution& contribution : contributions_) samples += contribution.samples;
  return samples;
}

std::vector<StagedInput> StagedBlock::Inputs() const {
  std::vector<StagedInput> inputs;
  inputs.reserve(contributions_.size());
  for (const Contribution& contribution : contributions_) inputs.push_back(contribution.Input());
  return inputs;
}

std::vector<StagedInput> StagedBlock::InputsWith(const StagedInput& last, const ReductionTree& tree) const {
  if (complete_) return {};
  const bool is_root = last.node == tree.root();
  if (!is_root && tree.ParentOf(last.node) != tree.root() && tree.Has(tree.ParentOf(last.node))) return {};
  std::vector<StagedInput> inputs = Inputs();
  const auto place =
      std::lower_bound(inputs.begin(), inputs.end(), last,
                       [](const StagedInput& a, const StagedInput& b) { return a.node.begin < b.node.begin; });
  inputs.insert(place, last);
  SlotIndex end = 0;
  for (const StagedInput& input : inputs) {
    if (input.node.begin != end) return {};
    end = input.node.end;
  }
  return end == tree.slots() ? inputs : std::vector<StagedInput>{};
}

std::vector<Node> StagedBlock::nodes() const {
  std::vector<Node> nodes;
  nodes.reserve(contributions_.size());
  for (const Contribution& contribution : contributions_) nodes.push_back(contribution.node);
  return nodes;
}

void StagedBlock::ReleasePayloads() {
  for (Contribution& contribution : contributions_) contribution.payload = {};
}

void StagedBlock::Clear() {
  contributions_.clear();
  seen_.clear();
  complete_ = false;
}

std::uint64_t StagedBlock::payload_bytes() const {
  std::uint64_t bytes = 0;
  for (const Contribution& contribution : contributions_) bytes += contribution.payload.size;
  return bytes;
}

}  // namespace capstan::server
