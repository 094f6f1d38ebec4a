// FirstWeights: this worker's first weights, for a job whose tensors are kGiven, and which blocks of them the shards of
// one generation have not acknowledged.
//
// Kind:   a value; part of Session's core.
// Why:    if a generation ends before version 0 is on disk, the next one asks for the weights again. So they stay in
//         memory until the first round of work shows that version 0 is on disk.
#pragma once

#include <vector>

#include "common/data/catalog.h"
#include "common/wire/actor.h"
#include "worker/session/owed_blocks.h"

namespace capstan::client {

class FirstWeights {
 public:
  // All weights in the declared order, without gaps; only tensors of kGiven are used. Null: this worker has none.
  void Bring(BufferRef weights) { weights_ = std::move(weights); }
  bool here() const { return static_cast<bool>(weights_); }
  // Version 0 is on disk: no generation will ask again.
  void LetGo() {
    weights_ = {};
    owed_.Clear();
  }

  // `generation` asks for the weights: all kGiven blocks are now owed to its shards.
  void Begin(Generation generation, const Catalog& catalog, const std::vector<ShardIndex>& placement);
  Generation generation() const { return generation_; }  // the one that asked last
  // Nothing is owed any more: the new generation may use another worker's weights.
  void Forget() { owed_.Clear(); }

  bool owes(ShardIndex shard) const { return owed_.owes(shard); }
  // Returns whether any of these blocks was still owed.
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
