// ShardIdentity: the identity and fencing numbers of a shard that its directory keeps.
//
// Kind:   a value.
#pragma once

#include "common/base/types.h"
#include "common/wire/messages/snapshot_id.h"

namespace capstan::server {

// A shard's directory keeps these numbers next to its snapshots. The shard's next process reads them.
struct ShardIdentity {
  JobId job;  // null: no job yet
  ShardIndex shard = 0;
  Incarnation incarnation;
  Term term;
  Generation generation;
  SnapshotId newest_retained;
  bool operator==(const ShardIdentity&) const = default;
};

}  // namespace capstan::server
