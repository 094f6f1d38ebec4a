// DurableIdentity: what a shard's directory remembers of it: its job, its fencing numbers and its newest retained
// snapshot.
//
// Kind:   owned by the Shard.
// Why:    a shard answers a Reset only after the new generation is on disk, so a restarted shard knows that generation.
#pragma once

#include <vector>

#include "common/base/backoff.h"
#include "common/wire/actor.h"
#include "server/storage/shard_disk.h"
#include "server/storage/shard_identity.h"

namespace capstan::server {

struct ShardContext;

class DurableIdentity {
 public:
  explicit DurableIdentity(ShardIdentity identity) : identity_(identity) {}

  // The newest identity; a write of it to the disk may still be under way.
  const ShardIdentity& value() const { return identity_; }
  // Whether the identity that the last Begin() made is on disk.
  bool is_stored() const { return stored_; }

  // Takes the job and its new generation, and requests that they are written to the disk.
  void Begin(const ShardContext& shard, JobId job, std::vector<DiskWork>* work);
  void RaiseNewestRetained(SnapshotId retained, std::vector<DiskWork>* work);
  // Returns whether the write succeeded; one that failed is repeated.
  bool Handle(const IdentityPersisted& result, const ShardContext& shard, Instant now, Outbox* out);
  void Tick(Instant now, std::vector<DiskWork>* work);

 private:
  ShardIdentity identity_;
  bool stored_ = false;
  bool failed_ = false;  // the last write failed and is to be repeated
  Backoff backoff_;
};

}  // namespace capstan::server
