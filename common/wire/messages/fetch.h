// Fetch: a shard asks another shard for a block of a snapshot.
//
// Kind:   values.
#pragma once

#include <cstdint>

#include "common/base/types.h"
#include "common/wire/messages/snapshot_id.h"

namespace capstan {

struct Fetch {  // names a block in a part that the other shard has
  SnapshotId snapshot;
  ShardIndex part = 0;
  BlockIndex block = 0;
  std::uint64_t key = 0;  // Reset::fetch_key of the newest Reset
};

}  // namespace capstan
