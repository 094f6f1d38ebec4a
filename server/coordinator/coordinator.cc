#include "server/coordinator/coordinator.h"

#include <algorithm>
#include <utility>

#include "common/base/host_port.h"
#include "common/base/utf8.h"
#include "common/config/job/limits_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/group_state.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/snapshot_done.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/hello_check.h"
#include "server/coordinator/job_view.h"
#include "server/coordinator/worker_care.h"

namespace capstan::server {

namespace {

constexpr Instant kPingEvery = std::chrono::seconds(1);
// What a peer may ask for, and all peers together. A start of Membership::kWorkersMax workers at once, each of which
// joins twice, is within the limits.
constexpr TokenBucket::Rate kJoinsEach{2, 30}, kJoinsAll{500, 4 * Membership::kWorkersMax};
constexpr TokenBucket::Rate kHellosEach{5, 20}, kHellosAll{500, 8192};
constexpr TokenBucket::Rate kBeatsEach{40, 100}, kBeatsAll{20'000, 40'000};
constexpr TokenBucket::Rate kStaleEach{2, 10}, kStaleAll{500, 2 * Membership::kWorkersMax};
constexpr Instant kShutdownEvery = std::chrono::milliseconds(50);

bool MayAnswer(RequestLimits* limits, PeerId from, Instant now) {
  return limits->Take(from, now) == RequestLimits::Verdict::kCarryOut;
}

// Whether the report is from the shard's incarnation with which the newest generation runs.
template <class Report>
bool IsFromRunning(PeerId from, const Report& report, const Job& job) {
  return job.shards.Is(from, report.shard) && report.generation == job.journal.generation() &&
         report.incarnation == job.journal.running()->incarnations[report.shard];
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, CoordinatorLog* log,
                         std::shared_ptr<monitoring::CoordinatorMetrics> metrics, Instant now)
    : job_(std::move(options), log, std::move(metrics), now),
      course_(&job_),
      joining_(&job_, &course_),
      joins_(kJoinsEach, kJoinsAll, now),
      hellos_(kHellosEach, kHellosAll, now),
      beats_(kBeatsEach, kBeatsAll, now),
      stale_beats_(kStaleEach, kStaleAll, now),
      next_report_(now + FromSeconds(job_.options.config.limits.report)) {
  CAPSTAN_CHECK(job_.slot_count() > 0 && job_.shards.size() > 0);
}

void Coordinator::Handle(PeerId from, const Message& message, Instant now, Outbox* out) {
  const auto take = [&](const auto& body) { On(from, body, now, out); };
  const Header& header = message.header;
  if (!IsWithinLimits(from, header, now, out)) return;
  if (header.VisitAs<Hello, Heartbeat, ResetDone, Prepared, Committed, Progress, ResetBad, SnapshotDone>(take))
    return;
  if (const auto* join = header.As<Join>()) return joining_.Take(from, *join, now, out);
  if (const auto* leave = header.As<Leave>()) return On(*leave, now, out);
  if (header.Is<Error>()) return;
  if (MayAnswer(&stale_beats_, from, now))
    SendError(job_, from, Code::kInvalid, "the coordinator does not take this message", out);
}

// Whether the message may be carried out. What a process says that holds a shard's index is not limited.
bool Coordinator::IsWithinLimits(PeerId from, const Header& header, Instant now, Outbox* out) {
  const auto* const hello = header.As<Hello>();
  RequestLimits* limits = nullptr;
  if (header.Is<Join>()) limits = &joins_;
  if (hello != nullptr && !job_.shards.Is(from, hello->shard)) limits = &hellos_;
  if (limits == nullptr) return true;
  const RequestLimits::Verdict verdict = limits->Take(from, now);
  if (verdict == RequestLimits::Verdict::kRefuse)
    SendError(job_, from, Code::kBusy, "too many requests; ask again in a second", out);
  return verdict == RequestLimits::Verdict::kCarryOut;
}

// ---- messages of shards --------------------------------------------------------------------------------------------

void Coordinator::On(PeerId from, const Hello& hello, Instant now, Outbox* out) {
  if (Status status = CheckHello(hello, job_.facts); !status.ok()) {
    SendError(job_, from, status.code(), status.message(), out, hello.incarnation);
    out->Log(Severity::kWarning, status.message());
    return;
  }
  const ShardTable::Admission admission = job_.shards.Admit(from, hello, job_.journal, now);
  if (admission.refusal) Refuse(*admission.refusal, out);
  if (admission.asks_holder) {
    out->Send(job_.shards[hello.shard].peer, Ping{job_.journal.term(), job_.journal.generation()});
  }
  if (admission.claimed == ShardTable::Claimed::kWaits) {
    SendError(job_, from, Code::kBusy, "waits for " + admission.waits_for, out, hello.incarnation);
  }
  if (admission.claimed != ShardTable::Claimed::kHolds) return;
  if (std::string beyond = BeyondLog(hello, job_.facts); !beyond.empty() && !course_.Overrules(hello, out)) {
    if (job_.shards.NoteBeyondLog(hello.shard, beyond)) out->Log(Severity::kWarning, beyond);
    SendError(job_, from, Code::kStale, beyond, out, hello.incarnation);  // the shard keeps waiting
    return;
  }
  if (job_.shards.Take(from, hello, job_.journal, now)) job_.steps->ForgetShard(hello.shard);
  if (!job_.shards[hello.shard].has_our_term) {
    out->Send(from, Ping{job_.journal.term(), job_.journal.generation()});
    return;
  }
  if (job_.IsServing() && hello.incarnation > job_.journal.running()->incarnations[hello.shard]) {
    course_.LoseShard(hello.shard, now, out);
  }
  course_.Advance(now, out);
}

void Coordinator::Refuse(const ShardTable::Refusal& refusal, Outbox* out) const {
  if (refusal.for_log) out->Log(Severity::kWarning, refusal.why);
  SendError(job_, refusal.to, Code::kRefused, refusal.why, out, refusal.incarnation);
}

// A process that claims what this one held is asked again: it may have it now.
void Coordinator::PeerGone(PeerId peer, Outbox* out) {
  for (const PeerId claimant : job_.shards.NoteGone(peer)) {
    out->Send(claimant, Ping{job_.journal.term(), job_.journal.generation()});
  }
  joining_.PeerGone(peer, out);
}

void Coordinator::On(PeerId from, const ResetDone& done, Instant now, Outbox* out) {
  if (job_.state.now() != State::kResetting || !job_.shards.Is(from, done.shard) ||
      done.generation != job_.journal.generation())
    return;
  const std::optional<Hello>& hello = job_.shards[done.shard].hello;
  if (!hello || hello->incarnation != done.incarnation) return;
  job_.shards.NoteBegun(done.shard, now);
  course_.Advance(now, out);
}

void Coordinator::On(PeerId from, const ResetBad& bad, Instant now, Outbox* out) {
  if (job_.state.now() != State::kResetting || !job_.shards.Is(from, bad.shard) ||
      bad.generation != job_.journal.generation())
    return;
  if (job_.shards[bad.shard].hello->incarnation != bad.incarnation) return;
  const std::string who = job_.shards.NameOf(bad.shard);
  if (job_.journal.recover().snapshot.IsNone() && !job_.journal.ContinuesTimeline())
    return course_.Fail(Refused(who + " cannot begin the job: " + bad.reason), out);
  course_.FallBack(who + ": " + bad.reason, now, out);
}

void Coordinator::On(PeerId from, const Prepared& prepared, Instant now, Outbox* out) {
  if (job_.state.now() != State::kRunning || !IsFromRunning(from, prepared, job_)) return;
  job_.shards.NoteMessage(prepared.shard, now);
  if (job_.steps->Take(prepared, now, out)) course_.Advance(now, out);
}

void Coordinator::On(PeerId from, const Committed& committed, Instant now, Outbox* out) {
  if (job_.state.now() != State::kRunning || !IsFromRunning(from, committed, job_)) return;
  if (!job_.steps->Take(committed)) return;
  job_.shards.NoteMessage(committed.shard, now);
  course_.Advance(now, out);
}

void Coordinator::On(PeerId from, const Progress& progress, Instant now, Outbox* out) {
  if (job_.state.now() != State::kRunning || !IsFromRunning(from, progress, job_)) return;
  if (!job_.steps->Take(progress)) return;
  job_.shards.NoteMessage(progress.shard, now);
  course_.DecideSteps(now, out);
}

Roster Coordinator::roster() const {
  Roster roster;
  for (ShardIndex i = 0; i < job_.shards.size(); ++i) {
    if (!job_.shards[i].hello) continue;
    const Hello& hello = *job_.shards[i].hello;
    roster.shards.push_back({i, hello.endpoint, IsHostPort(hello.metrics) ? hello.metrics : ""});
  }
  for (const auto& [session, worker] : job_.members.workers()) roster.workers.push_back({worker.name, worker.metrics});
  return roster;
}

void Coordinator::On(PeerId from, const SnapshotDone& done, Instant now, Outbox* out) {
  if (!job_.IsServing() || !job_.shards.Is(from, done.shard)) return;
  // A report with an earlier term does not count: an earlier coordinator may have had the part deleted since.
  if (done.term != job_.journal.term()) return;
  if (done.generation < job_.steps->SnapshotsSince() || done.generation > job_.journal.generation()) return;
  if (done.incarnation != job_.journal.running()->incarnations[done.shard]) return;
  job_.shards.NoteMessage(done.shard, now);
  switch (job_.snapshots.Take(done, now)) {
    case Snapshots::Taken::kOld: return;
    case Snapshots::Taken::kSettled: out->Send(from, job_.snapshots.MakeRetainedSnapshots()); return;
    case Snapshots::Taken::kFailed:
      if (job_.journal.AwaitsInitialWeights()) return course_.FailInitialWeights(done.shard, done.failure, out);
      out->Log(Severity::kWarning, "no snapshot of version " + std::to_string(done.version.value) + ": " +
                                       job_.shards.NameOf(done.shard) + ": " + done.failure);
      job_.snapshots.GiveUp(job_.steps->step(), now);
      out->Send(from, job_.snapshots.MakeRetainedSnapshots());
      break;
    case Snapshots::Taken::kPart:
      if (job_.state.now() == State::kFinished) job_.clock.Restart(now);
      break;
    case Snapshots::Taken::kKnownPart: break;
  }
  if (job_.snapshots.IsComplete()) course_.CommitSnapshot(now, out);
  course_.Advance(now, out);
}

// ---- messages of workers -------------------------------------------------------------------------------------------

void Coordinator::On(PeerId from, const Heartbeat& beat, Instant now, Outbox* out) {
  if (beat.session.value == 0) {  // from a reader
    job_.followers.NoteMessage(beat.nonce, now);
    if (MayAnswer(&beats_, from, now)) out->Send(from, MakeView(job_, nullptr));
    return;
  }
  Worker* worker = job_.members.Find(beat.session);
  if (worker == nullptr || worker->nonce != beat.nonce) {
    if (MayAnswer(&stale_beats_, from, now)) SendError(job_, from, Code::kStale, "unknown session; join again", out);
    return;
  }
  worker->peer = from;
  worker->last_message = now;
  worker->gone = false;
  joining_.NoteAlive(worker, out);
  job_.ranks.NoteMessage(*worker, now);
  const bool news =
      worker->generation != beat.generation || worker->step != beat.step || worker->computing != beat.computing;
  if (news) worker->since = now;
  worker->generation = beat.generation;
  worker->step = beat.step;
  worker->computing = beat.computing;
  worker->view_sequence = beat.view_sequence;
  worker->missing = beat.missing;
  const bool enters_barrier = worker->barrier != beat.barrier;  // for the same barrier the check in Tick is enough
  worker->barrier = beat.barrier;
  if (job_.machine_groups && (worker->group_epoch != beat.group_epoch || worker->group != beat.group)) {
    worker->group_epoch = beat.group_epoch;
    worker->group = beat.group;
    worker->group_text = beat.group_text;
    NoteMachineGroup(&job_, *worker, now, out);
  }
  const bool news_of_group = worker->group != beat.group || worker->group_text != beat.group_text;
  if (job_.group && beat.generation == job_.journal.generation() && news_of_group) {
    worker->group = beat.group;
    worker->group_text = beat.group_text;
    if (beat.group == GroupState::kOffered) worker->offer = beat.group_text;
    if (beat.group == GroupState::kFormed) worker->offer.clear();  // it has the version now
    course_.NoteGroup(worker, out);
    course_.Advance(now, out);
    worker = job_.members.Find(beat.session);
  }
  if (enters_barrier) PassBarrierWhenComplete(&job_, out);
  if (MayAnswer(&beats_, from, now)) SendView(job_, worker, out);
}

void Coordinator::On(const Leave& leave, Instant, Outbox* out) {
  if (leave.session.value == 0) job_.followers.Left(leave.nonce);
  const Worker* worker = job_.members.Find(leave.session);
  if (worker == nullptr || worker->nonce != leave.nonce) return;
  if (job_.state.now() != State::kFinished && job_.state.now() != State::kFailed) {
    out->Log(Severity::kInfo,
             "\"" + worker->name + "\" left: " + (leave.reason.empty() ? "asked to" : PrintableLine(leave.reason)));
  }
  job_.ranks.Forget(worker->rank);
  job_.members.Remove(leave.session);
  course_.Reassign(out);
}

// ---- time ----------------------------------------------------------------------------------------------------------

void Coordinator::Tick(Instant now, Outbox* out) {
  if (const Instant pause = job_.clock.Tick(now); pause > Instant{}) {
    job_.members.RenewAll(now);
    job_.shards.ForgivePause(pause);
    job_.late.NoteTrouble(now);
  }
  if (now >= next_ping_) {
    next_ping_ = now + (job_.ending.shutting_down ? kShutdownEvery : kPingEvery);
    for (const ShardEntry& shard : job_.shards) {
      if (shard.peer.value == 0) continue;
      if (job_.ending.shutting_down) {
        out->Send(shard.peer, capstan::Shutdown{job_.journal.term(), job_.journal.generation()});
      } else {
        out->Send(shard.peer, Ping{job_.journal.term(), job_.journal.generation()});
        if (job_.IsServing()) job_.steps->AddToPing(shard.peer, out);
      }
    }
  }
  for (const ShardTable::Refusal& refusal : job_.shards.RefuseClaims()) Refuse(refusal, out);
  // A finished job drops no silent reader, because the last snapshot and the final weights may take longer than a
  // lease.
  if (job_.state.now() != State::kFinished) job_.followers.ForgetBefore(now - job_.lease());
  for (const Worker& lost : job_.members.RemoveSilent(now, job_.lease())) {
    job_.metrics->leases_lost.Add(1);
    out->Log(Severity::kWarning,
             "\"" + lost.name + "\" has been silent for " + WholeSeconds(now - lost.last_message) + "; its slots move");
    course_.Reassign(out);
  }
  joining_.Tick(now, out);
  RenewMachineGroups(&job_, now, out);
  course_.Advance(now, out);
  job_.steps->Repeat(now, out);
  if (LeaveOutLateWorkers(&job_, now, out)) course_.Reassign(out);
  PassBarrierWhenComplete(&job_, out);  // a missing worker may have left
  CheckDeadlines(now, out);
  const bool waits = job_.state.now() != State::kFinished || job_.AwaitsLastSnapshot();
  job_.metrics->waiting_seconds.Set(waits ? ToSeconds(now - job_.clock.last_progress()) : 0.0);
  job_.metrics->workers[monitoring::MemberState::kAlive].Set(job_.members.size());
  const auto seen = std::count_if(job_.shards.begin(), job_.shards.end(),
                                  [](const ShardEntry& shard) { return shard.hello.has_value(); });
  const auto alive = std::count_if(job_.shards.begin(), job_.shards.end(),
                                   [&](const ShardEntry& shard) { return shard.hello && !shard.IsSilent(now); });
  job_.metrics->shards[monitoring::MemberState::kAlive].Set(alive);
  job_.metrics->shards[monitoring::MemberState::kLost].Set(seen - alive);
}

void Coordinator::CheckDeadlines(Instant now, Outbox* out) {
  if (Status overdue = Overdue(job_, now); !overdue.ok()) return course_.Fail(std::move(overdue), out);
  if (now < next_report_) return;
  const std::string line = WaitingLine(job_, now);
  if (line.empty()) return;
  next_report_ = now + FromSeconds(job_.options.config.limits.report);
  out->Log(Severity::kWarning, line);
}

void Coordinator::Shutdown() {
  job_.ending.shutting_down = true;
  next_ping_ = Instant{};
}

// ---- the end --------------------------------------------------------------------------------------------------------

void Coordinator::RequestStop(Instant now) {
  if (job_.stopping()) return;
  job_.ending.stop_since = now;
  job_.snapshots.Retry();
}

void Coordinator::Conclude(Outbox* out) {
  if (job_.journal.concluded()) return;
  course_.Append(DoneRecord{});
  SendChangedViews(&job_, out);
}

}  // namespace capstan::server
