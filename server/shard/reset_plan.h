// PlanReset, MakeLoad: what a Reset asks of a shard.
//
// Kind:   functions that change nothing of the shard.
// Fails:  kInvalid: a Reset that does not fit this shard or this machine's memory.
// Why:    a shard that cannot carry out a Reset goes on with what it has.
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

// Makes the load of the snapshot that a Reset names, into the blocks of the context. `parts`: those on this shard's
// disk.
std::unique_ptr<SnapshotLoad> MakeLoad(const ShardContext& shard, const Reset& reset,
                                       const std::vector<SnapshotPart>& parts);

}  // namespace capstan::server
