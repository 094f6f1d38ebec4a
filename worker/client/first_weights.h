// FirstWeights: what a worker brings for a job whose first weights are given, on its way to the shards of one
// generation.
//
// Kind:   a value; part of Session's core.
// Limits: kWindow blocks per shard without an answer.
// Why:    a generation that was lost before version 0 was kept asks again, so the weights stay until a round shows that
//         it was.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "common/catalog.h"
#include "common/messages.h"

namespace capstan::client {

class FirstWeights {
 public:
  static constexpr std::size_t kWindow = 4;

  // All weights one behind the other, as declared; only those of kGiven count. Null: there are none.
  void Bring(BufferRef weights) { weights_ = std::move(weights); }
  bool here() const { return static_cast<bool>(weights_); }
  // Nobody will ask again.
  void LetGo() {
    weights_ = {};
    owed_.clear();
  }

  // A generation asks: everything is owed to its shards.
  void Begin(Generation generation, const Catalog& catalog, const std::vector<ShardIndex>& placement);
  Generation generation() const { return generation_; }  // that asked last
  // What was owed is owed no more: somebody else's weights count.
  void Forget() { owed_.clear(); }

  bool owes(ShardIndex shard) const { return owed_.contains(shard); }
  // Whether there was news among these.
  bool Acknowledge(ShardIndex shard, const std::vector<BlockIndex>& blocks);

  // Calls send(block, payload) for what fits into the window and was not sent yet.
  template <class F>
  void SendNew(ShardIndex shard, const Catalog& catalog, const F& send) {
    const auto owed = owed_.find(shard);
    if (owed == owed_.end()) return;
    for (BlockIndex block : FirstOf(owed->second.blocks)) {
      if (owed->second.sent.insert(block).second) send(block, PayloadOf(catalog.blocks()[block]));
    }
  }
  // The same for all that was sent and is not acknowledged.
  template <class F>
  void SendAgain(ShardIndex shard, const Catalog& catalog, const F& send) {
    const auto owed = owed_.find(shard);
    if (owed == owed_.end()) return;
    for (BlockIndex block : owed->second.sent) send(block, PayloadOf(catalog.blocks()[block]));
  }

 private:
  struct Owed {
    std::set<BlockIndex> blocks;  // not acknowledged
    std::set<BlockIndex> sent;    // of these
  };
  static std::vector<BlockIndex> FirstOf(const std::set<BlockIndex>& blocks);
  Slice PayloadOf(const Block& block) const;

  BufferRef weights_;
  Generation generation_;
  std::map<ShardIndex, Owed> owed_;  // none that is empty
};

}  // namespace capstan::client
