#include "server/shard/durable_identity.h"

#include "server/shard/shard_context.h"

namespace capstan::server {

void DurableIdentity::Begin(const ShardContext& shard, JobId job, std::vector<DiskWork>* work) {
  identity_.job = job;
  identity_.shard = shard.options.shard;
  identity_.term = shard.term;
  identity_.generation = shard.generation;
  stored_ = false;
  work->emplace_back(PersistIdentity{identity_});
}

void DurableIdentity::RaiseNewestRetained(SnapshotId retained, std::vector<DiskWork>* work) {
  if (retained <= identity_.newest_retained) return;
  identity_.newest_retained = retained;
  work->emplace_back(PersistIdentity{identity_});
}

bool DurableIdentity::Handle(const IdentityPersisted& result, const ShardContext& shard, Instant now, Outbox* out) {
  failed_ = !result.status.ok();
  if (failed_) {
    backoff_.Sent(now);
    out->Log(Severity::kError, shard.name() + " cannot write to its directory: " + result.status.message());
    return false;
  }
  backoff_.Restart();
  if (result.identity.generation == shard.generation) stored_ = true;
  return true;
}

void DurableIdentity::Tick(Instant now, std::vector<DiskWork>* work) {
  if (!failed_ || !backoff_.Due(now)) return;
  failed_ = false;
  work->emplace_back(PersistIdentity{identity_});
}

}  // namespace capstan::server
