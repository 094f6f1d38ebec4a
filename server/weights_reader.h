// WeightsReader: fetches one version of all blocks from the shards.
//
// Kind:   owned by one thread; a pure core.
// Limits: kWindow blocks are asked for at a time per shard.
// Fails:  kCorrupt when a payload does not match its hash or block, kInvalid when a shard says so.
// Why:    whoever keeps a job's weights (a file, a follower) reads them as a worker does, without a session.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/actor.h"
#include "common/backoff.h"
#include "common/catalog.h"

namespace capstan::server {

class WeightsReader {
 public:
  static constexpr std::size_t kWindow = 16;

  struct Source {
    PeerId peer;
    ShardAddress address;
  };
  // Called once for each block; an error ends the reading with it.
  using OnBlock = std::function<Status(const Block& block, const Slice& weights)>;

  // `sources`: the shards in order of their index. `catalog` outlives the reader.
  WeightsReader(const Catalog* catalog, std::vector<Source> sources, Generation generation, Version version,
                OnBlock on_block);

  // False: not from one of the sources.
  bool Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  void Tick(Instant now, Outbox* out);

  bool done() const { return missing_ == 0; }
  const Status& status() const { return status_; }
  std::size_t missing() const { return missing_; }
  const std::vector<Source>& sources() const { return sources_; }

 private:
  struct Fetch {
    std::vector<BlockIndex> wanted;  // not yet here, in catalog order
    std::size_t outstanding = 0;     // of them, asked for
    Backoff retry;
  };

  void Ask(std::size_t shard, Instant now, Outbox* out);
  void On(std::size_t shard, const Weights& weights, const Slice& payload, Instant now, Outbox* out);

  const Catalog* const catalog_;
  const std::vector<Source> sources_;
  const Generation generation_;
  const Version version_;
  const OnBlock on_block_;
  std::vector<Fetch> fetches_;  // by shard
  std::size_t missing_ = 0;
  Status status_;
};

}  // namespace capstan::server
