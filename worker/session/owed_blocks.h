// OwedBlocks: blocks that this session uploads to shards and that the shards have not acknowledged yet.
//
// Kind:   a value; part of Session's core.
// Limits: kWindow unacknowledged blocks per shard in flight, fewer when the line has no room.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <vector>

#include "common/base/types.h"
#include "common/wire/line_pace.h"

namespace capstan::session {

class OwedBlocks {
 public:
  static constexpr std::size_t kWindow = 4;

  void Add(ShardIndex shard, BlockIndex block) { owed_[shard].blocks.insert(block); }
  bool owes(ShardIndex shard) const { return owed_.contains(shard); }
  // Drops blocks that the shard has acknowledged. Returns whether any of them was still unacknowledged.
  bool Acknowledge(ShardIndex shard, const std::vector<BlockIndex>& blocks, Instant now, LinePace* line);
  // Call when the shard has answered message `question`. Unacknowledged blocks that were sent before that message are
  // lost: they count as not in flight, and SendNew sends them again.
  void Lost(ShardIndex shard, std::uint64_t question, LinePace* line);

  // Calls send(block) for those of the shard's first kWindow unacknowledged blocks that are not in flight. `send`
  // returns nullopt if the line has no room.
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
    std::map<BlockIndex, LinePace::Sent> sent;  // those in flight
  };

  std::map<ShardIndex, Owed> owed_;  // shards without owed blocks have no entry
};

}  // namespace capstan::session
