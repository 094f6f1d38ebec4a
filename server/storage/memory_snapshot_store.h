// MemorySnapshotStore: a shard's directory that is no directory, for simulations and jobs within one process.
//
// Kind:   one thread at a time. It may outlive the shard: what it holds is what the shard's next life finds.
// Fails:  as it was told.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "server/storage/shard_life.h"
#include "server/storage/snapshot.h"
#include "server/storage/snapshot_store.h"

namespace capstan::server {

class MemorySnapshotStore : public SnapshotStore {
 public:
  const ShardLife& life() const override { return life_; }
  Status Remember(const ShardLife& life) override;
  std::vector<SnapshotPart> List() const override;
  Result<Written> Write(SnapshotImage image, const std::atomic<bool>& cancelled) override;
  Result<SnapshotHeader> ReadHeader(SnapshotId id, ShardIndex part) const override;
  Status ReadArray(SnapshotId id, ShardIndex part, BlockIndex block, std::uint32_t array,
                   std::span<std::byte> out) const override;
  Status Remove(SnapshotId id, ShardIndex part) override;

  // From now on every Write, or Remember, says this; a good status ends it.
  void FailWrites(Status status) { write_failure_ = std::move(status); }
  void FailRemember(Status status) { remember_failure_ = std::move(status); }
  // Flips a bit of a block of the newest part. False when there is none.
  bool DamageNewest();
  // What a shard that is no more has left here.
  void AddPartsOf(const MemorySnapshotStore& other);

 private:
  using Key = std::pair<SnapshotId, ShardIndex>;
  struct Part {
    SnapshotHeader header;
    std::vector<std::vector<std::byte>> arrays;  // of each block, one behind the other
  };

  Result<const Part*> Find(SnapshotId id, ShardIndex part) const;

  ShardLife life_;
  std::map<Key, Part> parts_;
  Status write_failure_, remember_failure_;
};

}  // namespace capstan::server
