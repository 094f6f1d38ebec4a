// ShardLife: the numbers of a shard's life that its directory keeps.
//
// Kind:   a value.
#pragma once

#include "common/base/types.h"
#include "common/wire/messages/snapshot_id.h"

namespace capstan::server {

// A shard's directory keeps these numbers, besides its snapshots, for the process that takes the shard's place.
struct ShardLife {
  JobId job;  // null: of no job yet
  ShardIndex shard = 0;
  Incarnation incarnation;
  Term term;
  Generation generation;
  SnapshotId newest_kept;
  bool operator==(const ShardLife&) const = default;
};

}  // namespace capstan::server
