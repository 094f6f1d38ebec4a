// RocksSnapshotStore: a shard's directory on disk, <folder>/shard-<index>, and those that nobody owns any more.
//
// Kind:   functions; what Open returns is a SnapshotStore (snapshot_store.h).
// Fails:  Open: kUnreachable, another process has the directory or the disk fails; kCorrupt, damaged; kInvalid, the
//         directory is another shard's. Writing: kUnreachable when the disk is full, and what was there stays.
//         kRefused: a snapshot that was cancelled.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "server/storage/snapshot_store.h"

namespace capstan::server {

class RocksSnapshotStore {
 public:
  // `folder` is made when it is missing, its parent is not. Waits at most `wait_seconds` for another process to end.
  // `orphans` are read only, and a directory whose last part is removed goes too.
  static Result<std::unique_ptr<SnapshotStore>> Open(const std::string& folder, ShardIndex shard, double wait_seconds,
                                                     const std::vector<ShardIndex>& orphans = {});
};

std::string FolderOfShard(const std::string& folder, ShardIndex shard);

// Directories of shards that a job of `shard_count` shards does not have, ascending.
std::vector<ShardIndex> FindOrphans(const std::string& folder, ShardIndex shard_count);

}  // namespace capstan::server
