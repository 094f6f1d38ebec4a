// When snapshots are taken, when one exists, and how long it is retained.
#include <algorithm>

#include "common/config/job/cluster_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/snapshot_done.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/coordinator_shard.h"
#include "server/coordinator/coordinator_text.h"
#include "server/storage/manifests.h"

namespace capstan::server {

namespace {

constexpr Instant kLongSnapshot = std::chrono::seconds(60);     // then it is logged, again at twice the time
constexpr Instant kLastSnapshotMax = std::chrono::seconds(60);  // a stop waits no longer for it, or for a step

}  // namespace

// Whether a multiple of every_steps is reached. Without global steps the clock may pass several at once.
bool Coordinator::SnapshotStepReached(Step next) const {
  const std::uint64_t every = options_.config.snapshot.every_steps;
  if (every == 0) return false;
  if (HasGlobalSteps(options_.config.mode())) return next.value % every == 0;
  Version last = newest_snapshot().version;
  if (given_up_.generation == generation_) last = std::max(last, given_up_.version);
  return next.value / every > last.value / every;
}

// Whether the version that step `next` begins with becomes a snapshot.
bool Coordinator::SnapshotDue(Step next, Instant newest, Instant now) {
  const SnapshotSection& wanted = options_.config.snapshot;
  const bool by_step = SnapshotStepReached(next);
  const bool by_time = wanted.every_seconds > 0 && now - newest >= Seconds(wanted.every_seconds);
  if (next.value == recover_->snapshot.version.value) return false;  // that snapshot exists
  if (!snapshot_) return by_step || by_time;
  if (by_step && HasGlobalSteps(options_.config.mode())) metrics_->snapshots_passed_over.Add(1);
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
  return !options_.config.snapshot.enabled() || AwaitsFirstWeights() || last_snapshot_failed_ || !running_ ||
         (settled.generation >= SnapshotsSince() && settled.version.value >= step_.value);
}

// The first generation whose snapshots hold the present weights. Where workers update, a version number means the same
// weights throughout a timeline.
Generation Coordinator::SnapshotsSince() const {
  return WorkersUpdate(options_.config.mode()) ? history() : generation_;
}

bool Coordinator::AwaitsLastSnapshot() const {
  return state_ == State::kFinished && !concluded_ && !shutting_down_ && !SnapshotsSettled();
}

void Coordinator::RequestStop(Instant now) {
  if (stop_requested_) return;
  stop_requested_ = true;
  stop_since_ = now;
  last_snapshot_failed_ = false;
}

void Coordinator::AdvanceSnapshots(Instant now, Outbox* out) {
  const bool ended = state_ == State::kFinished && running_ && !concluded_;
  if (state_ == State::kRunning || ended) {
    const bool by_slot = !HasGlobalSteps(options_.config.mode());
    const bool first = AwaitsFirstWeights() && !stop_requested_;
    const bool still = by_slot || ended || first || (stop_requested_ && AllCommitted());
    const bool last = (ended || stop_requested_) && parameters_.held && !SnapshotsSettled();
    const bool wanted =
        last || (!ended && !stop_requested_ && (first || (by_slot && SnapshotDue(step_, last_snapshot_, now))));
    const SnapshotId id{generation_, Version{step_.value}};
    if (!snapshot_ && still && wanted && id > Settled()) {
      BeginSnapshot(id, now);
      pin_backoff_.Restart();
    }
    if (snapshot_) SendPins(now, out);
    if (snapshot_) SayLongSnapshot(now, out);
  }
  if (stop_requested_ && (state_ == State::kCollecting || state_ == State::kResetting || state_ == State::kRunning)) {
    StopWhenKept(now, out);
  }
}

// A stop waits for the last snapshot. Where only the workers have the version, it also waits for the steps that upload
// it to the shards, even if another group makes them.
void Coordinator::StopWhenKept(Instant now, Outbox* out) {
  const Instant limit = std::max({kLastSnapshotMax, SlowAfter(), 2 * snapshot_took_});
  const bool late = now - stop_since_ >= limit;
  if (late) out->Say(Severity::kWarning, "the last snapshot is not complete after " + WholeSeconds(limit));
  const bool kept = state_ == State::kRunning && parameters_.held && SnapshotsSettled();
  const bool no_workers = members_.size() == 0 && now - started_ >= lease();
  const bool nobody = !parameters_.held && (no_workers || !options_.config.snapshot.enabled());
  const bool regroups = state_ == State::kResetting && GoingOn() && WorkersUpdate(options_.config.mode());
  if (late || kept || nobody || (state_ != State::kRunning && !regroups)) state_ = State::kStopped;
}

// No other snapshot begins while this one lasts, so a hanging disk must be logged.
void Coordinator::SayLongSnapshot(Instant now, Outbox* out) {
  if (now < snapshot_->next_line) return;
  const Instant lasts = now - snapshot_->since;
  snapshot_->next_line = now + lasts;
  std::string missing;
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    if (!snapshot_->parts[i]) AddName(&missing, ShardName(i, options_.config.cluster.shards_per_server));
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
    if (!snapshot_->parts[i]) out->Send(shards_[i].peer, Pin{term_, generation_, snapshot_->id.version});
  }
}

void Coordinator::On(PeerId from, const SnapshotDone& done, Instant now, Outbox* out) {
  const bool runs = (state_ == State::kRunning || state_ == State::kFinished) && running_ && !concluded_;
  if (!runs || !IsShard(from, done.shard)) return;
  // Sent to an earlier coordinator, which may have had the part deleted since.
  if (done.term != term_) return;
  if (done.generation < SnapshotsSince() || done.generation > generation_) return;
  if (done.incarnation != running_->incarnations[done.shard]) return;
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
    if (AwaitsFirstWeights()) return FailFirstWeights(done.shard, done.failure, out);
    out->Say(Severity::kWarning, "no snapshot of version " + std::to_string(id.version.value) + ": " +
                                     ShardName(done.shard, options_.config.cluster.shards_per_server) + ": " +
                                     done.failure);
    metrics_->snapshots_failed.Add(1);
    last_snapshot_failed_ = id.version.value >= step_.value;  // otherwise the last one still has to be tried
    snapshot_.reset();
    last_snapshot_ = now;
    given_up_ = id;
    out->Send(from, MakeSnapshotsKept());
    Advance(now, out);
    return;
  }
  if (state_ == State::kFinished && !snapshot_->parts[done.shard]) last_progress_ = now;
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
  if (!HasGlobalSteps(options_.config.mode())) {  // shards learn of these one after the other
    manifest.parameters = ParametersOf(options_.config, Step{manifest.id.version.value}, manifest.id.version.value);
  }
  manifest.parameters.snapshot = manifest.parameters.keep = false;
  for (const std::optional<SnapshotDone>& part : snapshot_->parts) {
    manifest.digests.push_back(part->digest);
    manifest.bytes += part->bytes;
  }
  metrics_->snapshot_seconds.Observe(ToSeconds(now - snapshot_->since));
  metrics_->snapshot_bytes.Set(static_cast<double>(manifest.bytes));
  metrics_->snapshot_version.Set(static_cast<double>(manifest.id.version.value));
  metrics_->snapshots_taken.Add(1);
  last_snapshot_ = snapshot_->since;
  snapshot_took_ = now - snapshot_->since;
  snapshot_.reset();
  last_snapshot_failed_ = false;
  Append(manifest);
  if (state_ == State::kFailed) return;
  if (AwaitsFirstWeights()) {  // the job begins now
    NoteProgress(now);
    last_commit_ = now;
  }
  out->Say(Severity::kInfo,
           "snapshot of version " + std::to_string(manifest.id.version.value) + " (" + BytesText(manifest.bytes) + ")");
  manifests_.push_back(std::move(manifest));
  DropOldManifests(options_.config.snapshot.keep, &manifests_);
  const ManifestRecord& newest = manifests_.back();
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    std::erase_if(shards_[i].parts, [&](const SnapshotPart& part) { return !IsNamed(part); });
    Remember({newest.id, i, newest.digests[i]}, &shards_[i]);
    out->Send(shards_[i].peer, MakeSnapshotsKept());
  }
}

bool Coordinator::IsNamed(const SnapshotPart& part) const {
  return std::any_of(manifests_.begin(), manifests_.end(), [&](const ManifestRecord& manifest) {
    return manifest.id == part.id && part.part < manifest.digests.size() && manifest.digests[part.part] == part.digest;
  });
}

void Coordinator::Remember(const SnapshotPart& part, ShardState* shard) const {
  const bool known = std::find(shard->parts.begin(), shard->parts.end(), part) != shard->parts.end();
  if (!known && IsNamed(part)) shard->parts.push_back(part);
}

void Coordinator::AddMissingParts(std::string* names) const {
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    if (snapshot_ && snapshot_->parts[i]) continue;
    AddName(names, ShardName(i, options_.config.cluster.shards_per_server) + " (writing the last snapshot)");
  }
}

SnapshotsKept Coordinator::MakeSnapshotsKept() const {
  SnapshotsKept message{term_, generation_, {}, Settled()};
  for (const ManifestRecord& manifest : manifests_) message.kept.push_back(manifest.id);
  return message;
}

void Coordinator::Conclude(Outbox* out) {
  if (concluded_) return;
  Append(DoneRecord{});
  concluded_ = true;
  ++view_sequence_;
  SendViews(out);
}

}  // namespace capstan::server
