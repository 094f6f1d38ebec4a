// RocksSnapshotReader: all shards' parts in the snapshots folder of a run directory, for reading.
//
// Kind:   owned by one thread. Takes no lock and writes nothing: the servers of a running job notice nothing of it.
// Fails:  reading a part: why its shard's directory could not be opened; kInvalid, it is not there; kCorrupt;
//         kUnreachable, also when the running job has deleted it meanwhile.
// Why:    it sees what was there when it was opened. A shard's part lies in that shard's directory, so the folder's
//         directories, whatever the number of shards is today, have every part that is on this machine.
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
  Result<SnapshotHeader> ReadHeader(SnapshotId id, ShardIndex part) const override;
  Status ReadArray(SnapshotId id, ShardIndex part, BlockIndex block, std::uint32_t array,
                   std::span<std::byte> out) const override;
  // When the part was written, in seconds since 1970.
  Result<std::int64_t> WrittenAt(SnapshotId id, ShardIndex part) const;

 private:
  struct Shard {
    Status status;  // of opening it
    std::unique_ptr<RocksFolder> folder;
  };
  Result<const RocksFolder*> FolderOf(SnapshotId id, ShardIndex part) const;

  std::map<ShardIndex, Shard> shards_;
};

}  // namespace capstan::server
