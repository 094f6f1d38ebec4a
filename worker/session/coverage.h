// Coverage: what the shards already had of a step when this session began to work on it.
//
// Kind:   a value; part of a WorkPlan.
// Why:    after a recovery or a change of slots, work that shards already have need not be done again.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "common/base/types.h"
#include "common/data/reduction_tree.h"
#include "common/wire/messages/staged.h"

namespace capstan::session {

class Coverage {
 public:
  // Forgets everything, and then expects an answer from each of `shards` shards.
  void Begin(std::size_t shards) {
    *this = {};
    answered_.assign(shards, false);
    missing_ = shards;
  }
  bool answered(ShardIndex shard) const { return shard < answered_.size() && answered_[shard]; }
  // Takes a shard's first answer. Returns whether all shards have answered now. `blocks`: the number of blocks in the
  // job.
  bool Take(ShardIndex shard, const Staged& staged, std::size_t blocks) {
    answered_[shard] = true;
    if (!staged.nodes.empty()) nodes_.resize(blocks);
    for (const Staged::Entry& entry : staged.nodes) {
      if (entry.block < nodes_.size()) nodes_[entry.block].push_back(entry.node);
    }
    ends_.insert(ends_.end(), staged.ended.begin(), staged.ended.end());
    for (SlotIndex slot = 0; slot < staged.clocks.size(); ++slot) {
      const auto [clock, added] = clocks_.try_emplace(slot, staged.clocks[slot]);
      if (!added) clock->second = std::min(clock->second, staged.clocks[slot]);
    }
    return --missing_ == 0;
  }

  bool HasNode(BlockIndex block, Node node) const {
    return block < nodes_.size() &&
           std::any_of(nodes_[block].begin(), nodes_[block].end(), [&](Node staged) { return staged.Contains(node); });
  }
  bool HasEnd(SlotIndex slot) const { return std::find(ends_.begin(), ends_.end(), slot) != ends_.end(); }
  // Whether the shards have all of the slot's work: its end, and for every block a node that contains the slot.
  bool HasSlot(SlotIndex slot, std::size_t blocks) const {
    if (!HasEnd(slot)) return false;
    for (BlockIndex block = 0; block < blocks; ++block) {
      if (!HasNode(block, {slot, slot + 1})) return false;
    }
    return true;
  }
  // Modes without global steps: returns per slot the newest sequence number that all shards had applied to all blocks.
  const std::map<SlotIndex, SequenceNumber>& clocks() const { return clocks_; }

 private:
  std::vector<bool> answered_;            // by shard
  std::size_t missing_ = 0;               // shards that have not answered
  std::vector<std::vector<Node>> nodes_;  // by block; empty: no shard had any
  std::vector<SlotIndex> ends_;
  std::map<SlotIndex, SequenceNumber> clocks_;
};

}  // namespace capstan::session
