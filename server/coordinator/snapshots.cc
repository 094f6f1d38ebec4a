#include "server/coordinator/snapshots.h"

#include "common/config/job/snapshot_section.h"
#include "monitoring/metrics.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/shard_table.h"

namespace capstan::server {

namespace {

constexpr Instant kLongSnapshot = std::chrono::seconds(60);
constexpr Instant kAfterStart = std::chrono::seconds(1);

}  // namespace

Snapshots::Snapshots(const JobFacts& facts, Instant now)
    : facts_(facts),
      newest_began_(facts.journal.has_begun()
                        ? now + kAfterStart - FromSeconds(facts.options.config.snapshot.every_seconds)
                        : now) {
  if (facts_.journal.manifests().empty()) return;
  const ManifestRecord& newest = facts_.journal.manifests().back();
  facts_.metrics.snapshot_version.Set(static_cast<double>(newest.id.version.value));
  facts_.metrics.snapshot_bytes.Set(static_cast<double>(newest.bytes));
}

bool Snapshots::IsSettled(Generation since, Step step) const {
  const SnapshotId settled = Settled();
  return !facts_.options.config.snapshot.enabled() || facts_.journal.AwaitsInitialWeights() || last_failed_ ||
         !facts_.journal.running() || (settled.generation >= since && settled.version.value >= step.value);
}

bool Snapshots::IsDueByTime(Instant newest_began, Instant now) const {
  const double every = facts_.options.config.snapshot.every_seconds;
  return every > 0 && now - newest_began >= FromSeconds(every);
}

bool Snapshots::IsDueAt(Step next, Version existing, Instant newest_began, Instant now) const {
  const std::uint64_t every = facts_.options.config.snapshot.every_steps;
  const bool by_step = every > 0 && next.value % every == 0;
  if (next.value == existing.value) return false;
  if (!pending_) return by_step || IsDueByTime(newest_began, now);
  if (by_step) facts_.metrics.snapshots_passed_over.Add(1);
  return false;  // the previous one is still being written
}

bool Snapshots::IsDueSince(Step clock, Version existing, Instant now) const {
  if (pending_ || clock.value == existing.value) return false;
  if (IsDueByTime(newest_began_, now)) return true;
  const std::uint64_t every = facts_.options.config.snapshot.every_steps;
  Version last = facts_.journal.newest_snapshot().version;
  if (given_up_.generation == facts_.journal.generation()) last = std::max(last, given_up_.version);
  return every > 0 && clock.value / every > last.value / every;
}

void Snapshots::Begin(SnapshotId id, Instant now) {
  const std::size_t shards = facts_.shards.size();
  pending_ = Pending{id, std::vector<std::optional<SnapshotDone>>(shards), now, now + kLongSnapshot};
  ask_backoff_.Restart();
  ask_backoff_.Sent(now);  // the Commit is the first request
}

void Snapshots::BeginAndAsk(SnapshotId id, Instant now) {
  Begin(id, now);
  ask_backoff_.Restart();
}

void Snapshots::Tick(Instant now, Outbox* out) {
  if (!pending_) return;
  Ask(now, out);
  LogIfLong(now, out);
}

void Snapshots::Ask(Instant now, Outbox* out) {
  if (!ask_backoff_.Due(now)) return;
  ask_backoff_.Sent(now);
  const Pin pin{facts_.journal.term(), facts_.journal.generation(), pending_->id.version};
  for (ShardIndex i = 0; i < facts_.shards.size(); ++i) {
    if (!pending_->parts[i]) out->Send(facts_.shards[i].peer, pin);
  }
}

void Snapshots::LogIfLong(Instant now, Outbox* out) {
  if (now < pending_->next_line) return;
  const Instant lasts = now - pending_->since;
  pending_->next_line = now + lasts;
  out->Log(Severity::kWarning, "the snapshot of version " + std::to_string(pending_->id.version.value) +
                                   " has been written for " + WholeSeconds(lasts) + "; it waits for " + MissingParts() +
                                   ", and no other one is taken meanwhile");
}

Snapshots::Taken Snapshots::Take(const SnapshotDone& done, Instant now) {
  const SnapshotId id{done.generation, done.version};
  if (id <= Settled()) return Taken::kSettled;
  if (pending_ && id < pending_->id) return Taken::kOld;
  // The shard may report a snapshot that an earlier coordinator asked for. That is accepted too.
  if (!pending_ || id > pending_->id) Begin(id, now);
  if (!done.failure.empty()) return Taken::kFailed;
  const bool known = pending_->parts[done.shard].has_value();
  pending_->parts[done.shard] = done;
  return known ? Taken::kKnownPart : Taken::kPart;
}

void Snapshots::GiveUp(Step newest, Instant now) {
  facts_.metrics.snapshots_failed.Add(1);
  given_up_ = pending_->id;
  last_failed_ = given_up_.version.value >= newest.value;  // else the newest version may still be tried
  newest_began_ = now;
  pending_.reset();
}

bool Snapshots::IsComplete() const {
  return pending_ &&
         std::all_of(pending_->parts.begin(), pending_->parts.end(), [](const auto& part) { return part.has_value(); });
}

ManifestRecord Snapshots::Complete(Instant now) {
  ManifestRecord manifest;
  manifest.id = pending_->id;
  manifest.parameters = pending_->parts.front()->parameters;
  // In an external job only the shard that has block 0 has the program's state.
  for (const std::optional<SnapshotDone>& part : pending_->parts) {
    if (manifest.parameters.program_state.empty()) manifest.parameters.program_state = part->parameters.program_state;
  }
  for (const std::optional<SnapshotDone>& part : pending_->parts) {
    manifest.digests.push_back(part->digest);
    manifest.bytes += part->bytes;
  }
  newest_began_ = pending_->since;
  took_ = now - pending_->since;
  last_failed_ = false;
  std::erase_if(completed_, [&](const auto& one) {
    const auto& kept = facts_.journal.manifests();
    return std::none_of(kept.begin(), kept.end(), [&](const ManifestRecord& record) { return record.id == one.first; });
  });
  completed_[manifest.id] = now;
  pending_.reset();
  facts_.metrics.snapshot_seconds.Observe(ToSeconds(took_));
  facts_.metrics.snapshot_bytes.Set(static_cast<double>(manifest.bytes));
  facts_.metrics.snapshot_version.Set(static_cast<double>(manifest.id.version.value));
  facts_.metrics.snapshots_taken.Add(1);
  return manifest;
}

std::optional<Instant> Snapshots::AgeOf(SnapshotId id, Instant now) const {
  const auto found = completed_.find(id);
  if (found == completed_.end()) return std::nullopt;
  return now - found->second;
}

std::string Snapshots::MissingParts() const {
  std::string names;
  for (ShardIndex i = 0; i < facts_.shards.size(); ++i) {
    if (!HasPart(i)) AddName(&names, facts_.shards.NameOf(i));
  }
  return names;
}

RetainedSnapshots Snapshots::MakeRetainedSnapshots() const {
  RetainedSnapshots message{facts_.journal.term(), facts_.journal.generation(), {}, Settled()};
  for (const ManifestRecord& manifest : facts_.journal.manifests()) message.ids.push_back(manifest.id);
  return message;
}

}  // namespace capstan::server
