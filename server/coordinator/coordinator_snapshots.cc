// When a snapshot begins, when it exists, and when a stop has waited long enough for one.
#include <algorithm>

#include "common/config/job/snapshot_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/snapshot_done.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/coordinator_text.h"

namespace capstan::server {

namespace {

constexpr Instant kLastSnapshotMax = std::chrono::seconds(60);  // a stop waits no longer for it, or for a step

}  // namespace

void Coordinator::RequestStop(Instant now) {
  if (job_.stopping()) return;
  job_.ending.stop_since = now;
  job_.snapshots.Retry();
}

void Coordinator::AdvanceSnapshots(Instant now, Outbox* out) {
  const bool running = job_.state.now() == State::kRunning;
  const bool ended = job_.IsServing() && !running;
  if (running || ended) {
    const bool first = job_.journal.AwaitsInitialWeights() && !job_.stopping();
    const bool last = (ended || job_.stopping()) && job_.steps->parameters().held && !job_.SnapshotsSettled();
    const bool wanted = last || (!ended && !job_.stopping() && (first || job_.steps->IsPinDue(job_.snapshots, now)));
    const SnapshotId id{job_.journal.generation(), Version{job_.steps->step().value}};
    if (wanted && job_.steps->TakesPins() && !job_.snapshots.pending() && id > job_.snapshots.Settled()) {
      job_.snapshots.BeginAndAsk(id, now);
    }
    job_.snapshots.Tick(now, out);
  }
  if (job_.stopping() && (job_.state.now() == State::kCollecting || job_.state.now() == State::kResetting || running)) {
    StopWhenKept(now, out);
  }
}

// A stop waits for the last snapshot. Where only the workers have the version, it also waits for the steps that upload
// it to the shards, even if another group makes them.
void Coordinator::StopWhenKept(Instant now, Outbox* out) {
  const Instant limit =
      std::max({kLastSnapshotMax, job_.records.SlowAfter(job_.options.slow_after), 2 * job_.snapshots.took()});
  const bool late = now - *job_.ending.stop_since >= limit;
  if (late) out->Say(Severity::kWarning, "the last snapshot is not complete after " + WholeSeconds(limit));
  const bool held = job_.steps->parameters().held;
  const bool kept = job_.state.now() == State::kRunning && held && job_.SnapshotsSettled();
  const bool no_workers = job_.members.size() == 0 && now - job_.clock.started() >= job_.lease();
  const bool nobody = !held && (no_workers || !job_.options.config.snapshot.enabled());
  const bool regroups = job_.state.now() == State::kResetting && job_.journal.ContinuesTimeline() && job_.group;
  if (late || kept || nobody || (job_.state.now() != State::kRunning && !regroups)) job_.state.On(JobEvent::kStopped);
}

void Coordinator::On(PeerId from, const SnapshotDone& done, Instant now, Outbox* out) {
  if (!job_.IsServing() || !job_.shards.Is(from, done.shard)) return;
  // Sent to an earlier coordinator, which may have had the part deleted since.
  if (done.term != job_.journal.term()) return;
  if (done.generation < job_.steps->SnapshotsSince() || done.generation > job_.journal.generation()) return;
  if (done.incarnation != job_.journal.running()->incarnations[done.shard]) return;
  job_.shards.Heard(done.shard, now);
  switch (job_.snapshots.Take(done, now)) {
    case Snapshots::Taken::kOld: return;
    case Snapshots::Taken::kSettled: out->Send(from, job_.snapshots.MakeSnapshotsKept()); return;
    case Snapshots::Taken::kFailed:
      if (job_.journal.AwaitsInitialWeights()) return FailFirstWeights(done.shard, done.failure, out);
      out->Say(Severity::kWarning, "no snapshot of version " + std::to_string(done.version.value) + ": " +
                                       job_.shards.NameOf(done.shard) + ": " + done.failure);
      job_.snapshots.GiveUp(job_.steps->step(), now);
      out->Send(from, job_.snapshots.MakeSnapshotsKept());
      break;
    case Snapshots::Taken::kPart:
      if (job_.state.now() == State::kFinished) job_.clock.Restart(now);
      break;
    case Snapshots::Taken::kKnownPart: break;
  }
  if (job_.snapshots.IsComplete()) CommitSnapshot(now, out);
  Advance(now, out);
}

// Every shard has its part on disk: from the manifest on, the snapshot exists.
void Coordinator::CommitSnapshot(Instant now, Outbox* out) {
  ManifestRecord manifest = job_.snapshots.Complete(now);
  manifest.parameters = job_.steps->ParametersOfSnapshot(manifest);
  manifest.parameters.snapshot = manifest.parameters.keep = false;
  const bool begins = job_.journal.AwaitsInitialWeights();
  Append(manifest);
  if (job_.state.failed()) return;
  if (begins) {  // the job begins now
    job_.clock.Progress(now);
    job_.records.Begin(now);
  }
  out->Say(Severity::kInfo,
           "snapshot of version " + std::to_string(manifest.id.version.value) + " (" + BytesText(manifest.bytes) + ")");
  job_.shards.NoteManifest(job_.journal);
  for (const ShardEntry& shard : job_.shards) out->Send(shard.peer, job_.snapshots.MakeSnapshotsKept());
}

void Coordinator::Conclude(Outbox* out) {
  if (job_.journal.concluded()) return;
  Append(DoneRecord{});
  ++job_.view_sequence;
  SendViews(out);
}

}  // namespace capstan::server
