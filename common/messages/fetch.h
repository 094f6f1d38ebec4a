// Fetch: a shard asks another one for a block of a snapshot.
//
// Kind:   values.
#pragma once

#include "common/messages/snapshot_id.h"
#include "common/types.h"

namespace capstan {

struct Fetch {  // a block of a snapshot's part that the other has
  SnapshotId snapshot;
  ShardIndex part = 0;
  BlockIndex block = 0;
};

}  // namespace capstan
