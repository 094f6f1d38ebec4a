// RocksSnapshotReader: reads all shards' parts in the snapshots folder of a run directory.
//
// Kind:   owned by one thread. Takes no lock and writes nothing, so it does not disturb the servers of a running job.
// Fails:  reading a part: the failure to open its shard's directory; kInvalid, not found; kCorrupt; kUnreachable, also
//         if the running job has deleted the part meanwhile.
// Why:    a reader sees the parts that were there when it was opened. Each part is in the directory of the shard that
//         wrote it. So these directories have every part on this machine, whatever the number of shards is now.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "server/storage/snapshot_store.h"

namespace capstan::server {

class RocksFolder;

class RocksSnapshotReader : public SnapshotReader {
 public:
  explicit RocksSnapshotReader(const std::string& folder);
  RocksSnapshotReader(const RocksSnapshotReader&) = delete;
  RocksSnapshotReader& operator=(const RocksSnapshotReader&) = delete;
  ~RocksSnapshotReader() override;

  std::vector<SnapshotPart> List() const override;
  Result<SharedHeader> ReadHeader(SnapshotId id, ShardIndex part) const override;
  Status ReadArray(SnapshotId id, ShardIndex part, BlockIndex block, std::uint32_t array,
                   std::span<std::byte> out) const override;
  // Returns when the part was written, in seconds since 1970.
  Result<std::int64_t> WrittenAt(SnapshotId id, ShardIndex part) const;

 private:
  struct Shard {
    Status status;  // result of opening the folder
    std::unique_ptr<RocksFolder> folder;
  };
  Result<const RocksFolder*> FolderOf(SnapshotId id, ShardIndex part) const;

  std::map<ShardIndex, Shard> shards_;
};

}  // namespace capstan::server
