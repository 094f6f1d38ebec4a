// RocksSnapshotStore: a shard's directory on disk, <folder>/shard-<index>, and the directories of shards that the job
// no longer has (orphans).
//
// Kind:   functions; Open returns a SnapshotStore (snapshot_store.h).
// Fails:  Open: kUnreachable, another process has the directory or the disk fails; kCorrupt, damaged; kInvalid, the
//         directory is another shard's. Writing: kBusy when the disk is full, and earlier snapshots stay. kRefused: the
//         snapshot was cancelled.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "server/storage/snapshot_store.h"

namespace capstan::server {

class RocksSnapshotStore {
 public:
  // Makes `folder` if it is missing, but not its parent. Waits at most `wait_seconds` for another process to end.
  // `orphans`: shards that the job had before and has no more. Their directories are opened for reading, and Remove
  // removes their parts of a snapshot, too. An orphan's directory goes with its last part, unless a push log is in it.
  static Result<std::unique_ptr<SnapshotStore>> Open(const std::string& folder, ShardIndex shard, double wait_seconds,
                                                     const std::vector<ShardIndex>& orphans = {});
};

std::string FolderOfShard(const std::string& folder, ShardIndex shard);

// Lists the shards, in ascending order, that have a directory here but do not exist in a job of `shard_count` shards.
std::vector<ShardIndex> FindOrphans(const std::string& folder, ShardIndex shard_count);

}  // namespace capstan::server
