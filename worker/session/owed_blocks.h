// OwedBlocks: blocks that shards are to be given and have not acknowledged.
//
// Kind:   a value; part of Session's core.
// Limits: kWindow blocks per shard without an answer, or fewer where the line has no room for them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/base/types.h"
#include "common/wire/line_pace.h"

namespace capstan::client {

class OwedBlocks {
 public:
  static constexpr std::size_t kWindow = 4;

  void Add(ShardIndex shard, BlockIndex block) { owed_[shard].blocks.insert(block); }
  void Clear() { owed_.clear(); }  // with the lines that it was sent over

  bool empty() const { return owed_.empty(); }
  bool owes(ShardIndex shard) const { return owed_.contains(shard); }
  // Whether there was news among these.
  bool Acknowledge(ShardIndex shard, const std::vector<BlockIndex>& blocks, Instant now, LinePace* line);
  // What was sent before message `question` and is not acknowledged is to be sent again.
  void Lost(ShardIndex shard, std::uint64_t question, LinePace* line);

  // Calls send(block) for what is to be sent and fits into the window; it returns nothing when the line has no room.
  template <class F>
  void SendNew(ShardIndex shard, const F& send) {
    const auto owed = owed_.find(shard);
    if (owed == owed_.end()) return;
    std::size_t count = 0;
    for (BlockIndex block : owed->second.blocks) {
      if (count++ == kWindow) return;
      if (owed->second.sent.contains(block)) continue;
      const std::optional<LinePace::Sent> sent = send(block);
      if (!sent) return;
      owed->second.sent.emplace(block, *sent);
    }
  }

 private:
  struct Owed {
    std::set<BlockIndex> blocks;                // not acknowledged
    std::map<BlockIndex, LinePace::Sent> sent;  // of these
  };

  std::map<ShardIndex, Owed> owed_;  // none that is empty
};

}  // namespace capstan::client
