// PlanReset, MakeLoad: check whether a shard can carry out a Reset, and make the SnapshotLoad of the Reset's snapshot.
//
// Kind:   functions that change nothing of the shard.
// Fails:  kInvalid: a Reset that is not valid, or whose blocks do not fit into memory.
// Why:    the check comes before any change, so a shard that cannot carry out a Reset goes on with what it has.
#pragma once

#include <memory>
#include <vector>

#include "common/base/status.h"
#include "common/data/catalog.h"
#include "common/wire/actor.h"
#include "server/shard/snapshot_load.h"

namespace capstan::server {

struct ShardContext;

struct ResetPlan {
  Catalog catalog;
  std::vector<BlockIndex> blocks;  // this shard's, in catalog order
};

Result<ResetPlan> PlanReset(const ShardContext& shard, const Reset& reset, Outbox* out);

// Makes the SnapshotLoad that loads a Reset's snapshot into the blocks of the context. `parts`: the snapshot parts on
// this shard's disk.
std::unique_ptr<SnapshotLoad> MakeLoad(const ShardContext& shard, const Reset& reset,
                                       const std::vector<SnapshotPart>& parts);

}  // namespace capstan::server
