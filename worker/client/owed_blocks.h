// OwedBlocks: blocks that shards are to be given and have not acknowledged.
//
// Kind:   a value; part of Session's core.
// Limits: kWindow blocks per shard without an answer.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "common/types.h"

namespace capstan::client {

class OwedBlocks {
 public:
  static constexpr std::size_t kWindow = 4;

  void Add(ShardIndex shard, BlockIndex block) { owed_[shard].blocks.insert(block); }
  void Clear() { owed_.clear(); }

  bool empty() const { return owed_.empty(); }
  bool owes(ShardIndex shard) const { return owed_.contains(shard); }
  // Whether there was news among these.
  bool Acknowledge(ShardIndex shard, const std::vector<BlockIndex>& blocks);

  // Calls send(block) for what fits into the window and was not sent yet.
  template <class F>
  void SendNew(ShardIndex shard, const F& send) {
    const auto owed = owed_.find(shard);
    if (owed == owed_.end()) return;
    std::size_t count = 0;
    for (BlockIndex block : owed->second.blocks) {
      if (count++ == kWindow) return;
      if (owed->second.sent.insert(block).second) send(block);
    }
  }
  // The same for all that was sent and is not acknowledged.
  template <class F>
  void SendAgain(ShardIndex shard, const F& send) {
    const auto owed = owed_.find(shard);
    if (owed == owed_.end()) return;
    for (BlockIndex block : owed->second.sent) send(block);
  }

 private:
  struct Owed {
    std::set<BlockIndex> blocks;  // not acknowledged
    std::set<BlockIndex> sent;    // of these
  };

  std::map<ShardIndex, Owed> owed_;  // none that is empty
};

}  // namespace capstan::client
