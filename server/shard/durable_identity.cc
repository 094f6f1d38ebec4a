#include "server/shard/durable_identity.h"

#include "server/shard/shard_context.h"

namespace capstan::server {

void DurableIdentity::Begin(const ShardContext& shard, JobId job, std::vector<DiskWork>* work) {
  life_.job = job;
  life_.shard = shard.options.shard;
  life_.term = shard.term;
  life_.generation = shard.generation;
  stored_ = false;
  work->emplace_back(RememberLife{life_});
}

void DurableIdentity::RaiseNewestKept(SnapshotId kept, std::vector<DiskWork>* work) {
  if (kept <= life_.newest_kept) return;
  life_.newest_kept = kept;
  work->emplace_back(RememberLife{life_});
}

bool DurableIdentity::Handle(const LifeRemembered& result, const ShardContext& shard, Instant now, Outbox* out) {
  failed_ = !result.status.ok();
  if (failed_) {
    backoff_.Sent(now);
    out->Say(Severity::kError, shard.name() + " cannot write to its directory: " + result.status.message());
    return false;
  }
  backoff_.Restart();
  if (result.life.generation == shard.generation) stored_ = true;
  return true;
}

void DurableIdentity::Tick(Instant now, std::vector<DiskWork>* work) {
  if (!failed_ || !backoff_.Due(now)) return;
  failed_ = false;
  work->emplace_back(RememberLife{life_});
}

}  // namespace capstan::server
