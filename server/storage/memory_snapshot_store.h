// MemorySnapshotStore: a shard's snapshots in memory, for simulations and jobs within one process.
//
// Kind:   used by one thread at a time. It may outlive the shard: the shard's next incarnation finds its contents.
// Fails:  as FailWrites and FailRemember request.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "server/storage/shard_identity.h"
#include "server/storage/snapshot.h"
#include "server/storage/snapshot_store.h"

namespace capstan::server {

class MemorySnapshotStore : public SnapshotStore {
 public:
  const ShardIdentity& identity() const override { return identity_; }
  Status PersistIdentity(const ShardIdentity& identity) override;
  std::vector<SnapshotPart> List() const override;
  Result<Written> Write(SnapshotImage image, const std::atomic<bool>& cancelled) override;
  Result<SharedHeader> ReadHeader(SnapshotId id, ShardIndex part) const override;
  Status ReadArray(SnapshotId id, ShardIndex part, BlockIndex block, std::uint32_t array,
                   std::span<std::byte> out) const override;
  Status Remove(SnapshotId id, ShardIndex part) override;

  // From now on every Write (FailWrites) or PersistIdentity (FailRemember) fails with `status`; an ok status ends this.
  void FailWrites(Status status) { write_failure_ = std::move(status); }
  void FailRemember(Status status) { remember_failure_ = std::move(status); }
  // Flips a bit in a block of the newest part that has data. Returns false if there is none.
  bool DamageNewest();
  // Adds the parts of another shard's store.
  void AddPartsOf(const MemorySnapshotStore& other);

 private:
  using Key = std::pair<SnapshotId, ShardIndex>;
  struct StoredPart {
    SharedHeader header;
    std::vector<std::vector<std::byte>> arrays;  // by block, then by array
  };

  Result<const StoredPart*> Find(SnapshotId id, ShardIndex part) const;

  ShardIdentity identity_;
  std::map<Key, StoredPart> parts_;
  Status write_failure_, remember_failure_;
};

}  // namespace capstan::server
