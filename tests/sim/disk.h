// SimDisk: a shard's directory in a simulated cluster. It outlives the shard, and fails on request.
//
// Kind:   owned by the cluster.
// Why:    data that is not on disk when a shard dies is lost; data on disk may be damaged; the disk may be full.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/messages/snapshot_id.h"
#include "server/storage/shard_identity.h"
#include "server/storage/snapshot.h"
#include "server/storage/snapshot_store.h"
#include "tests/sim/mutants.h"
#include "tests/sim/push_log.h"

namespace capstan::sim {

class SimDisk : public server::SnapshotStore {
 public:
  const server::ShardIdentity& identity() const override { return identity_; }
  Status PersistIdentity(const server::ShardIdentity& identity) override;
  std::vector<SnapshotPart> List() const override;
  Result<Written> Write(server::SnapshotImage image, const std::atomic<bool>& cancelled) override;
  Result<server::SharedHeader> ReadHeader(SnapshotId id, ShardIndex part) const override;
  Status ReadArray(SnapshotId id, ShardIndex part, BlockIndex block, std::uint32_t array,
                   std::span<std::byte> out) const override;
  Status Remove(SnapshotId id, ShardIndex part) override;

  // Call when there are fewer shards than disks: this disk also serves the parts that `orphan` holds.
  void Adopt(SimDisk* orphan) { orphans_.push_back(orphan); }
  void ForgetOrphans() { orphans_.clear(); }
  void set_full(bool full) {
    full_ = full;
    push_log_.FailWrites(full ? Unreachable("the disk is full") : Status());
  }
  // Flips a bit of an array in a part of this snapshot. Returns false if this disk has no such array.
  bool Damage(SnapshotId id, std::uint64_t random);
  void set_flaw(Flaw flaw) {
    flaw_ = flaw;
    push_log_.set_flaw(flaw);
  }
  // Sets how many reports a snapshot's header may have; a header with more cannot be read.
  void set_reports_max(std::size_t most) { reports_max_ = most; }
  SimPushLog* push_log() { return &push_log_; }
  void set_kills_when_full(bool kills) { kills_when_full_ = kills; }
  // Call it when the shard dies.
  void Crash();
  // Why something that was written could not be encoded or cannot be read; ok: there is no such thing.
  const Status& unreadable() const { return unreadable_.ok() ? push_log_.unreadable() : unreadable_; }
  bool Holds(SnapshotId id, ShardIndex part) const { return parts_.contains({id, part}); }

 private:
  struct StoredPart {
    Result<server::SharedHeader> header = Invalid("no header was written");  // as it is read
    std::uint64_t digest = 0;
    bool readable = false;  // the header can be decoded
    std::map<std::pair<BlockIndex, std::uint32_t>, std::vector<std::byte>> arrays;
  };
  void WriteHeader(const server::SnapshotHeader& header, StoredPart* part);
  const StoredPart* Find(SnapshotId id, ShardIndex part) const;

  server::ShardIdentity identity_;
  SimPushLog push_log_;
  std::map<std::pair<SnapshotId, ShardIndex>, StoredPart> parts_;
  std::vector<SimDisk*> orphans_;
  void Spoil(BlockIndex block, std::uint32_t array, std::vector<std::byte>* bytes) const;

  Status unreadable_;
  std::size_t reports_max_ = SIZE_MAX;
  bool full_ = false, kills_when_full_ = false;
  Flaw flaw_ = Flaw::kNone;
  std::optional<std::pair<SnapshotId, ShardIndex>> newest_;  // not durable on a flawed disk
};

}  // namespace capstan::sim
