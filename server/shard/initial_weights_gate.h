// InitialWeightsGate: which of a shard's blocks still lack initial weights from a worker, and whether version 0 is on
// disk.
//
// Kind:   a value of the Shard, made again when it gets blocks.
// Fails:  kInvalid: an upload that this shard does not need, or with a weight that is not finite. kCorrupt: a payload
//         that does not match its hash.
// Why:    initial weights that do not follow from the seed are on disk before anything depends on them, so every
//         restart has the same beginning. Until then pulls are parked and pushes are refused.
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
  // `blocks`: the blocks of this shard. kToBeLoaded: they come from a snapshot, with all weights.
  InitialWeightsGate(const Catalog& catalog, const std::vector<BlockIndex>& blocks, BlockStore::Begin begin);

  Status Check(const ShardContext& shard, const UploadBlock& upload, const Slice& payload) const;
  // Writes the checked weights of a block into version 0, unless the block has them already. Returns whether it did.
  bool Take(const ShardContext& shard, const UploadBlock& upload, const Slice& payload);

  // Requests that version 0 is written to disk once it is complete.
  void RequestSnapshot() { snapshot_requested_ = true; }
  // Whether version 0 is to be written to disk now; true once for each request.
  bool TakeSnapshotRequest() { return missing_.empty() && std::exchange(snapshot_requested_, false); }

  // Whether version 0 is on disk at every shard, or can be computed from the seed.
  bool is_open() const { return open_; }
  // Opens the gate, because a manifest names version 0. A gate that still lacks weights stays closed.
  void Open() { open_ = missing_.empty(); }

 private:
  std::set<BlockIndex> from_worker_;  // blocks with a tensor whose initial weights a worker sends
  std::set<BlockIndex> missing_;      // the blocks of from_worker_ whose weights have not arrived
  bool open_ = true;
  bool snapshot_requested_ = false;
};

}  // namespace capstan::server
