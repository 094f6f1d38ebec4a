// FirstWeights: what a worker brings for a job whose first weights are given, on its way to the shards of one
// generation.
//
// Kind:   a value; part of Session's core.
// Why:    a generation that was lost before version 0 was kept asks again, so the weights stay until a round shows that
//         it was.
#pragma once

#include <vector>

#include "common/data/catalog.h"
#include "common/wire/actor.h"
#include "worker/session/owed_blocks.h"

namespace capstan::client {

class FirstWeights {
 public:
  // All weights one behind the other, as declared; only those of kGiven count. Null: there are none.
  void Bring(BufferRef weights) { weights_ = std::move(weights); }
  bool here() const { return static_cast<bool>(weights_); }
  // Nobody will ask again.
  void LetGo() {
    weights_ = {};
    owed_.Clear();
  }

  // A generation asks: everything is owed to its shards.
  void Begin(Generation generation, const Catalog& catalog, const std::vector<ShardIndex>& placement);
  Generation generation() const { return generation_; }  // that asked last
  // What was owed is owed no more: somebody else's weights count.
  void Forget() { owed_.Clear(); }

  bool owes(ShardIndex shard) const { return owed_.owes(shard); }
  // Whether there was news among these.
  bool Acknowledge(ShardIndex shard, const std::vector<BlockIndex>& blocks, Instant now, LinePace* line) {
    return owed_.Acknowledge(shard, blocks, now, line);
  }
  void Lost(ShardIndex shard, std::uint64_t question, LinePace* line) { owed_.Lost(shard, question, line); }

  // As OwedBlocks::SendNew, with send(block, payload).
  template <class F>
  void SendNew(ShardIndex shard, const Catalog& catalog, const F& send) {
    owed_.SendNew(shard, [&](BlockIndex block) { return send(block, PayloadOf(catalog.blocks()[block])); });
  }

 private:
  Slice PayloadOf(const Block& block) const;

  BufferRef weights_;
  Generation generation_;
  OwedBlocks owed_;
};

}  // namespace capstan::client
