// Fetch: a shard asks another shard for a block of a snapshot.
//
// Kind:   values.
#pragma once

#include "common/base/types.h"
#include "common/wire/messages/snapshot_id.h"

namespace capstan {

struct Fetch {  // names a block in a part that the other shard has
  SnapshotId snapshot;
  ShardIndex part = 0;
  BlockIndex block = 0;
};

}  // namespace capstan
