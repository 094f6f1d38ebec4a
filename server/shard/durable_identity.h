// DurableIdentity: what a shard's directory keeps about the shard: its job, the term, generation and incarnation, and
// its newest retained snapshot.
//
// Kind:   owned by the Shard.
// Why:    a shard confirms a Reset only after the new generation is on disk, so the shard still knows that generation
//         after a restart.
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

  // The newest identity, which may not be on disk yet.
  const ShardIdentity& value() const { return identity_; }
  // Whether the generation of the last Begin() is on disk.
  bool is_stored() const { return stored_; }

  // Takes the job, and the shard's present term and generation. Adds the request to write them to `work`.
  void Begin(const ShardContext& shard, JobId job, std::vector<DiskWork>* work);
  void RaiseNewestRetained(SnapshotId retained, std::vector<DiskWork>* work);
  // Takes the result of a write, and returns whether it succeeded. Tick() repeats a failed write.
  bool Handle(const IdentityPersisted& result, const ShardContext& shard, Instant now, Outbox* out);
  void Tick(Instant now, std::vector<DiskWork>* work);

 private:
  ShardIdentity identity_;
  bool stored_ = false;
  bool failed_ = false;  // the last write failed and is to be repeated
  Backoff backoff_;
};

}  // namespace capstan::server
