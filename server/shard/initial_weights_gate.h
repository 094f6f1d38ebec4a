// InitialWeightsGate: which of a shard's blocks still lack initial weights from a worker, and whether version 0 is on
// disk.
//
// Kind:   a value of the Shard, made again when a Reset gives the shard its blocks.
// Fails:  kInvalid: an upload of a block that takes none here, of a wrong size, or with a weight that is not finite.
//         kCorrupt: a payload that does not match its hash.
// Why:    initial weights that do not follow from the seed are on disk before anything depends on them, so every
//         restart has the same beginning. Until then pulls are parked, and pushes and ends of slots are refused.
#pragma once

#include <set>
#include <utility>
#include <vector>

#include "common/base/buffer.h"
#include "common/base/status.h"
#include "common/data/catalog.h"
#include "server/shard/block_store.h"

namespace capstan {
struct UploadBlock;
}  // namespace capstan

namespace capstan::server {

struct ShardContext;

class InitialWeightsGate {
 public:
  InitialWeightsGate() = default;
  // `blocks`: the blocks of this shard. With kToBeLoaded a snapshot has all weights, so the gate begins open.
  InitialWeightsGate(const Catalog& catalog, const std::vector<BlockIndex>& blocks, BlockStore::Begin begin);

  Status Check(const ShardContext& shard, const UploadBlock& upload, const Slice& payload) const;
  // Writes the checked weights of a block into version 0. Returns false if the block has its weights already.
  bool Take(const ShardContext& shard, const UploadBlock& upload, const Slice& payload);

  // Requests that version 0 is written to disk once it is complete.
  void RequestSnapshot() { snapshot_requested_ = true; }
  // Whether version 0 is complete and its snapshot was requested. Returns true only once for each request.
  bool TakeSnapshotRequest() { return missing_.empty() && std::exchange(snapshot_requested_, false); }

  // Whether weights may be read and changed: a snapshot has them, or version 0 can be computed from the seed.
  bool is_open() const { return open_; }
  // Call when the coordinator's log has a snapshot of version 0. Opens the gate, unless weights are still missing here.
  void Open() { open_ = missing_.empty(); }

 private:
  std::set<BlockIndex> from_worker_;  // blocks with a tensor whose initial weights a worker sends
  std::set<BlockIndex> missing_;      // the blocks of from_worker_ whose weights have not arrived
  bool open_ = true;
  bool snapshot_requested_ = false;
};

}  // namespace capstan::server
