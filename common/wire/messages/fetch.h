// Fetch: a shard asks another one for a block of a snapshot.
//
// Kind:   values.
#pragma once

#include "common/base/types.h"
#include "common/wire/messages/snapshot_id.h"

namespace capstan {

struct Fetch {  // a block of a snapshot's part that the other has
  SnapshotId snapshot;
  ShardIndex part = 0;
  BlockIndex block = 0;
};

}  // namespace capstan
