// When snapshots are taken, when one exists, and how long it is retained.
#include <algorithm>

#include "common/config/job/cluster_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/snapshot_done.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/coordinator_shard.h"
#include "server/coordinator/coordinator_text.h"

namespace capstan::server {

namespace {

constexpr Instant kLongSnapshot = std::chrono::seconds(60);     // then it is logged, again at twice the time
constexpr Instant kLastSnapshotMax = std::chrono::seconds(60);  // a stop waits no longer for it, or for a step

}  // namespace

// Whether a multiple of every_steps is reached. Without global steps the clock may pass several at once.
bool Coordinator::SnapshotStepReached(Step next) const {
  const std::uint64_t every = job_.options.config.snapshot.every_steps;
  if (every == 0) return false;
  if (HasGlobalSteps(job_.options.config.mode())) return next.value % every == 0;
  Version last = job_.journal.newest_snapshot().version;
  if (given_up_.generation == job_.journal.generation()) last = std::max(last, given_up_.version);
  return next.value / every > last.value / every;
}

// Whether the version that step `next` begins with becomes a snapshot.
bool Coordinator::SnapshotDue(Step next, Version existing, Instant newest, Instant now) {
  const SnapshotSection& wanted = job_.options.config.snapshot;
  const bool by_step = SnapshotStepReached(next);
  const bool by_time = wanted.every_seconds > 0 && now - newest >= Seconds(wanted.every_seconds);
  if (next.value == existing.value) return false;
  if (!snapshot_) return by_step || by_time;
  if (by_step && HasGlobalSteps(job_.options.config.mode())) job_.metrics->snapshots_passed_over.Add(1);
  return false;  // the previous one is still being written
}

void Coordinator::BeginSnapshot(SnapshotId id, Instant now) {
  snapshot_ = std::make_unique<PendingSnapshot>(
      PendingSnapshot{id, std::vector<std::optional<SnapshotDone>>(shards_.size()), now, now + kLongSnapshot});
  pin_backoff_.Restart();
  pin_backoff_.Sent(now);  // the Commit is the first request
}

bool Coordinator::SnapshotsSettled() const {
  const SnapshotId settled = Settled();
  return !job_.options.config.snapshot.enabled() || job_.journal.AwaitsInitialWeights() || last_snapshot_failed_ ||
         !job_.journal.running() || (settled.generation >= SnapshotsSince() && settled.version.value >= step_.value);
}

// The first generation whose snapshots hold the present weights. Where workers update, a version number means the same
// weights throughout a timeline.
Generation Coordinator::SnapshotsSince() const {
  return WorkersUpdate(job_.options.config.mode()) ? job_.journal.timeline() : job_.journal.generation();
}

bool Coordinator::AwaitsLastSnapshot() const {
  return job_.state.now() == State::kFinished && !job_.journal.concluded() && !shutting_down_ && !SnapshotsSettled();
}

void Coordinator::RequestStop(Instant now) {
  if (stop_requested_) return;
  stop_requested_ = true;
  stop_since_ = now;
  last_snapshot_failed_ = false;
}

void Coordinator::AdvanceSnapshots(Instant now, Outbox* out) {
  const bool ended = job_.state.now() == State::kFinished && job_.journal.running() && !job_.journal.concluded();
  if (job_.state.now() == State::kRunning || ended) {
    const bool by_slot = !HasGlobalSteps(job_.options.config.mode());
    const bool first = job_.journal.AwaitsInitialWeights() && !stop_requested_;
    const bool still = by_slot || ended || first || (stop_requested_ && AllCommitted());
    const bool last = (ended || stop_requested_) && parameters_.held && !SnapshotsSettled();
    const bool wanted =
        last ||
        (!ended && !stop_requested_ &&
         (first || (by_slot && SnapshotDue(step_, job_.journal.recover().snapshot.version, last_snapshot_, now))));
    const SnapshotId id{job_.journal.generation(), Version{step_.value}};
    if (!snapshot_ && still && wanted && id > Settled()) {
      BeginSnapshot(id, now);
      pin_backoff_.Restart();
    }
    if (snapshot_) SendPins(now, out);
    if (snapshot_) SayLongSnapshot(now, out);
  }
  if (stop_requested_ && (job_.state.now() == State::kCollecting || job_.state.now() == State::kResetting ||
                          job_.state.now() == State::kRunning)) {
    StopWhenKept(now, out);
  }
}

// A stop waits for the last snapshot. Where only the workers have the version, it also waits for the steps that upload
// it to the shards, even if another group makes them.
void Coordinator::StopWhenKept(Instant now, Outbox* out) {
  const Instant limit = std::max({kLastSnapshotMax, SlowAfter(), 2 * snapshot_took_});
  const bool late = now - stop_since_ >= limit;
  if (late) out->Say(Severity::kWarning, "the last snapshot is not complete after " + WholeSeconds(limit));
  const bool kept = job_.state.now() == State::kRunning && parameters_.held && SnapshotsSettled();
  const bool no_workers = members_.size() == 0 && now - started_ >= lease();
  const bool nobody = !parameters_.held && (no_workers || !job_.options.config.snapshot.enabled());
  const bool regroups = job_.state.now() == State::kResetting && job_.journal.ContinuesTimeline() &&
                        WorkersUpdate(job_.options.config.mode());
  if (late || kept || nobody || (job_.state.now() != State::kRunning && !regroups)) job_.state.On(JobEvent::kStopped);
}

// No other snapshot begins while this one lasts, so a hanging disk must be logged.
void Coordinator::SayLongSnapshot(Instant now, Outbox* out) {
  if (now < snapshot_->next_line) return;
  const Instant lasts = now - snapshot_->since;
  snapshot_->next_line = now + lasts;
  std::string missing;
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    if (!snapshot_->parts[i]) AddName(&missing, ShardName(i, job_.options.config.cluster.shards_per_server));
  }
  out->Say(Severity::kWarning, "the snapshot of version " + std::to_string(snapshot_->id.version.value) +
                                   " has been written for " + WholeSeconds(lasts) + "; it waits for " + missing +
                                   ", and no other one is taken meanwhile");
}

// Asks the shards whose part is missing: for versions that no Commit asked for, and after lost messages.
void Coordinator::SendPins(Instant now, Outbox* out) {
  if (!pin_backoff_.Due(now)) return;
  pin_backoff_.Sent(now);
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    if (!snapshot_->parts[i])
      out->Send(shards_[i].peer, Pin{job_.journal.term(), job_.journal.generation(), snapshot_->id.version});
  }
}

void Coordinator::On(PeerId from, const SnapshotDone& done, Instant now, Outbox* out) {
  const bool runs = (job_.state.now() == State::kRunning || job_.state.now() == State::kFinished) &&
                    job_.journal.running() && !job_.journal.concluded();
  if (!runs || !IsShard(from, done.shard)) return;
  // Sent to an earlier coordinator, which may have had the part deleted since.
  if (done.term != job_.journal.term()) return;
  if (done.generation < SnapshotsSince() || done.generation > job_.journal.generation()) return;
  if (done.incarnation != job_.journal.running()->incarnations[done.shard]) return;
  ShardState& shard = shards_[done.shard];
  shard.last_heard = now;
  const SnapshotId id{done.generation, done.version};
  if (id <= Settled()) {  // the shard does not know it yet
    out->Send(from, MakeSnapshotsKept());
    return;
  }
  if (snapshot_ && id < snapshot_->id) return;
  // A snapshot that an earlier coordinator asked for is as good as ours.
  if (!snapshot_ || id > snapshot_->id) BeginSnapshot(id, now);
  if (!done.failure.empty()) {
    if (job_.journal.AwaitsInitialWeights()) return FailFirstWeights(done.shard, done.failure, out);
    out->Say(Severity::kWarning, "no snapshot of version " + std::to_string(id.version.value) + ": " +
                                     ShardName(done.shard, job_.options.config.cluster.shards_per_server) + ": " +
                                     done.failure);
    job_.metrics->snapshots_failed.Add(1);
    last_snapshot_failed_ = id.version.value >= step_.value;  // otherwise the last one still has to be tried
    snapshot_.reset();
    last_snapshot_ = now;
    given_up_ = id;
    out->Send(from, MakeSnapshotsKept());
    Advance(now, out);
    return;
  }
  if (job_.state.now() == State::kFinished && !snapshot_->parts[done.shard]) last_progress_ = now;
  snapshot_->parts[done.shard] = done;
  const auto& parts = snapshot_->parts;
  if (std::all_of(parts.begin(), parts.end(), [](const auto& part) { return part.has_value(); })) {
    CommitSnapshot(now, out);
  }
  Advance(now, out);
}

// Every shard has its part on disk: from the manifest on, the snapshot exists.
void Coordinator::CommitSnapshot(Instant now, Outbox* out) {
  ManifestRecord manifest;
  manifest.id = snapshot_->id;
  manifest.parameters = snapshot_->parts.front()->parameters;
  if (!HasGlobalSteps(job_.options.config.mode())) {  // shards learn of these one after the other
    manifest.parameters = ParametersOf(job_.options.config, Step{manifest.id.version.value}, manifest.id.version.value);
  }
  manifest.parameters.snapshot = manifest.parameters.keep = false;
  for (const std::optional<SnapshotDone>& part : snapshot_->parts) {
    manifest.digests.push_back(part->digest);
    manifest.bytes += part->bytes;
  }
  job_.metrics->snapshot_seconds.Observe(ToSeconds(now - snapshot_->since));
  job_.metrics->snapshot_bytes.Set(static_cast<double>(manifest.bytes));
  job_.metrics->snapshot_version.Set(static_cast<double>(manifest.id.version.value));
  job_.metrics->snapshots_taken.Add(1);
  last_snapshot_ = snapshot_->since;
  snapshot_took_ = now - snapshot_->since;
  snapshot_.reset();
  last_snapshot_failed_ = false;
  const bool begins = job_.journal.AwaitsInitialWeights();  // the job begins now
  Append(manifest);
  if (job_.state.now() == State::kFailed) return;
  if (begins) {
    NoteProgress(now);
    last_commit_ = now;
  }
  out->Say(Severity::kInfo,
           "snapshot of version " + std::to_string(manifest.id.version.value) + " (" + BytesText(manifest.bytes) + ")");
  const ManifestRecord& newest = job_.journal.manifests().back();
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    std::erase_if(shards_[i].parts, [&](const SnapshotPart& part) { return !job_.journal.Names(part); });
    Remember({newest.id, i, newest.digests[i]}, &shards_[i]);
    out->Send(shards_[i].peer, MakeSnapshotsKept());
  }
}

void Coordinator::Remember(const SnapshotPart& part, ShardState* shard) const {
  const bool known = std::find(shard->parts.begin(), shard->parts.end(), part) != shard->parts.end();
  if (!known && job_.journal.Names(part)) shard->parts.push_back(part);
}

void Coordinator::AddMissingParts(std::string* names) const {
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    if (snapshot_ && snapshot_->parts[i]) continue;
    AddName(names, ShardName(i, job_.options.config.cluster.shards_per_server) + " (writing the last snapshot)");
  }
}

SnapshotsKept Coordinator::MakeSnapshotsKept() const {
  SnapshotsKept message{job_.journal.term(), job_.journal.generation(), {}, Settled()};
  for (const ManifestRecord& manifest : job_.journal.manifests()) message.kept.push_back(manifest.id);
  return message;
}

void Coordinator::Conclude(Outbox* out) {
  if (job_.journal.concluded()) return;
  Append(DoneRecord{});
  ++view_sequence_;
  SendViews(out);
}

}  // namespace capstan::server
