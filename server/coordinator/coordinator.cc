#include "server/coordinator/coordinator.h"

#include <algorithm>
#include <utility>

#include "common/base/host_port.h"
#include "common/base/utf8.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job_config.h"
#include "common/keys/role_name.h"
#include "common/wire/messages/disagreement.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "common/wire/messages/snapshot_done.h"
#include "common/wire/messages/team.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/hello_check.h"
#include "server/coordinator/job_metrics.h"
#include "server/coordinator/job_view.h"
#include "server/coordinator/join_check.h"
#include "server/coordinator/lag.h"
#include "server/coordinator/tell_shards.h"
#include "server/coordinator/worker_care.h"

namespace capstan::server {

namespace {

constexpr Instant kPingEvery = std::chrono::seconds(1);
constexpr Instant kShutdownEvery = std::chrono::milliseconds(50);

// Returns how many workers have joined, in words that compare the number with cluster.workers.
std::string HowMany(std::size_t members, std::uint32_t wanted) {
  if (members <= wanted) return std::to_string(members) + " of " + std::to_string(wanted) + " workers";
  return std::to_string(members) + " workers, " + std::to_string(members - wanted) +
         " more than cluster.workers = " + std::to_string(wanted);
}

// Describes a worker that joins.
std::string DescribeJoin(const Worker& worker) {
  std::string text = "\"" + worker.name + "\"";
  if (worker.rank != 0) text += ", rank " + std::to_string(worker.rank - 1);
  if (!worker.machine.empty()) text += ", machine \"" + worker.machine + "\"";
  if (!worker.metrics.empty()) text += ", metrics at " + worker.metrics;
  return text;
}

Teams::Facts TeamFacts(const Job& job) {
  const ClusterSection& cluster = job.options.config.cluster;
  const Instant since = job.clock.last_tick() - job.clock.started();
  const bool is_late = since >= std::max(job.lease(), FromSeconds(job.options.config.limits.join / 2));
  return {job.members, job.journal.term(), is_late ? cluster.min_workers : cluster.workers, WantedWorkers(job),
          since >= job.lease()};
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
      next_report_(now + FromSeconds(job_.options.config.limits.report)) {
  CAPSTAN_CHECK(job_.slot_count() > 0 && job_.shards.size() > 0 && job_.options.draw_secret);
}

void Coordinator::Handle(PeerId from, const Principal& sender, const Message& message, Instant now, Outbox* out) {
  const auto take = [&](const auto& body) { On(from, body, now, out); };
  const Header& header = message.header;
  if (const auto* hello = header.As<Hello>()) return On(from, sender, *hello, now, out);
  if (const auto* join = header.As<Join>()) return On(from, sender, *join, now, out);
  if (header.VisitAs<Heartbeat, ResetDone, Prepared, Committed, Progress, ResetBad, SnapshotDone, Disagreement>(take))
    return;
  if (const auto* leave = header.As<Leave>()) return On(*leave, now, out);
  if (header.Is<Error>() || HandleTeam(from, message, now, out)) return;
  RefuseTo(from, Code::kInvalid, "the coordinator does not take this message", out);
}

void Coordinator::RefuseTo(PeerId to, Code code, std::string message, Outbox* out, Incarnation incarnation) const {
  Error error;
  error.incarnation = incarnation;
  error.code = code;
  error.message = std::move(message);
  out->Send(to, std::move(error));
}

// ---- messages of shards --------------------------------------------------------------------------------------------

void Coordinator::On(PeerId from, const Principal& sender, const Hello& hello, Instant now, Outbox* out) {
  const std::string who = Describe(sender);
  if (Status status = CheckHello(hello, job_.facts); !status.ok()) {
    RefuseTo(from, status.code(), status.message(), out, hello.incarnation);
    out->LogAndAudit(Severity::kWarning, AuditKind::kRefused, status.message(), who);
    return;
  }
  if (std::string beyond = BeyondLog(hello, job_.facts); !beyond.empty() && !course_.Overrules(hello, out)) {
    if (job_.shards.NoteBeyondLog(hello.shard, beyond))
      out->LogAndAudit(Severity::kWarning, AuditKind::kRefused, beyond, who);
    RefuseTo(from, Code::kStale, beyond, out, hello.incarnation);  // the shard keeps waiting
    return;
  }
  const ShardTable::Admission admission = job_.shards.Admit(from, who, hello, job_.journal, now);
  if (const auto& refusal = admission.refusal) {
    if (refusal->for_log) out->Log(Severity::kWarning, refusal->why);
    out->Audit(AuditKind::kRefused, refusal->why, refusal->principal);
    RefuseTo(refusal->to, Code::kRefused, refusal->why, out, refusal->incarnation);
  }
  if (!admission.accepted) return;
  if (admission.is_new) {
    out->Audit(admission.replaces ? AuditKind::kTookOver : AuditKind::kJoined,
               job_.shards.NameOf(hello.shard) + " at " + hello.endpoint + ", life " +
                   std::to_string(hello.incarnation.value) + (admission.replaces ? ", in place of the one before" : ""),
               who);
  }
  if (admission.replaces) {
    job_.metrics->restarts[monitoring::Member::kShard].Add(1);
    job_.steps->ForgetShard(hello.shard);
  }
  job_.told.sessions.NoteHello(hello.shard, hello.term == job_.journal.term() ? hello.sessions : 0, admission.replaces);
  if (!job_.shards[hello.shard].has_our_term) {
    out->Send(from, Ping{job_.journal.term(), job_.journal.generation()});
    return;
  }
  if (job_.IsServing() && hello.incarnation > job_.journal.running()->incarnations[hello.shard]) {
    course_.LoseShard(hello.shard, now, out);
  }
  course_.Advance(now, out);
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
  const std::string who = job_.shards.NameOf(bad.shard), reason = Excerpt(bad.reason, kLongExcerptBytesMax);
  if (job_.journal.recover().snapshot.IsNone() && !job_.journal.ContinuesTimeline())
    return course_.Fail(Refused(who + " cannot begin the job: " + reason), out);
  course_.FallBack(who + ": " + reason, now, out);
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

// Of two workers that contradict each other, the one that joined later is set aside. If its word counts in the step
// under way, or that of a worker that has left, the step is given up. A second worker that contradicts the same one
// ends the job.
void Coordinator::On(PeerId from, const Disagreement& disagreement, Instant now, Outbox* out) {
  if (job_.state.now() != State::kRunning || !IsFromRunning(from, disagreement, job_)) return;
  SetAside& set_aside = job_.members.set_aside();
  const Worker* first = job_.members.Find(disagreement.first);
  const Worker* second = job_.members.Find(disagreement.second);
  if (second == nullptr) return;  // it has left
  const bool is_now = disagreement.step == job_.steps->step();
  if (is_now) set_aside.NoteStep(disagreement.generation, disagreement.step);
  if (disagreement.first.value == 0) return;  // nobody knows who is at fault
  const bool first_is_later = first != nullptr && job_.members.IsSenior(disagreement.second, disagreement.first);
  if (first != nullptr) {
    const Worker aside = first_is_later ? *first : *second;
    const std::string other = first_is_later ? second->name : first->name;
    const std::string what = Excerpt(disagreement.what, kLongExcerptBytesMax);
    if (const std::string* another = set_aside.FindAnother(aside, other)) {
      return course_.Fail(
          Refused("\"" + *another + "\" and \"" + aside.name + "\" both contradict \"" + other + "\": " + what +
                  "; start the job again with workers of one program, one configuration and one data set"),
          out);
    }
    const std::string why =
        (aside.name == other ? "it contradicts itself" : "it contradicts \"" + other + "\", which joined before it") +
        ": " + what;
    const std::string to_worker = "this worker is set aside: " + why +
                                  "; when its program and its data are those of the job, start it under another name" +
                                  (aside.principal.name.empty() ? "" : ", with a key for that name");
    RefuseTo(aside.peer, Code::kRefused, to_worker, out);
    out->LogAndAudit(Severity::kWarning, AuditKind::kSetAside,
                     "\"" + aside.name + "\" is set aside, and the job goes on without it: " + why,
                     Describe(aside.principal));
    set_aside.Add({aside.name, other, to_worker, aside.principal.key});
    job_.members.Remove(aside.session);
    course_.Reassign(out);
  }
  if (is_now && (first == nullptr || first_is_later)) course_.GiveUpStep(now, out);
  course_.Advance(now, out);
}

Roster Coordinator::roster() const {
  Roster roster;
  for (ShardIndex i = 0; i < job_.shards.size(); ++i) {
    if (!job_.shards[i].hello) continue;
    const Hello& hello = *job_.shards[i].hello;
    roster.shards.push_back({i, hello.endpoint, IsPagesAddress(hello.metrics) ? hello.metrics : ""});
  }
  for (const auto& [joined, worker] : job_.members.workers()) roster.workers.push_back({worker.name, worker.metrics});
  return roster;
}

void Coordinator::On(PeerId from, const SnapshotDone& done, Instant now, Outbox* out) {
  if (!job_.IsServing() || !job_.shards.Is(from, done.shard)) return;
  // A report with an earlier term does not count: an earlier coordinator may have had the part deleted since.
  if (done.term != job_.journal.term()) return;
  if (done.generation != job_.steps->SnapshotsSince()) return;
  if (done.incarnation != job_.journal.running()->incarnations[done.shard]) return;
  job_.shards.NoteMessage(done.shard, now);
  switch (job_.snapshots.Take(done, now)) {
    case Snapshots::Taken::kOld: return;
    case Snapshots::Taken::kSettled: out->Send(from, job_.snapshots.MakeRetainedSnapshots()); return;
    case Snapshots::Taken::kFailed:
      if (job_.journal.AwaitsInitialWeights()) {
        return course_.FailInitialWeights(done.shard, Excerpt(done.failure, kLongExcerptBytesMax), out);
      }
      out->Log(Severity::kWarning, "no snapshot of version " + std::to_string(done.version.value) + ": " +
                                       job_.shards.NameOf(done.shard) + ": " +
                                       Excerpt(done.failure, kLongExcerptBytesMax));
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

void Coordinator::On(PeerId from, const Principal& sender, const Join& join, Instant now, Outbox* out) {
  const std::string who = Describe(sender);
  Status status = CheckJoin(join, job_);
  const bool is_new = !job_.journal.catalog_record();
  if (status.ok() && !join.catalog.empty()) status = course_.AdoptCatalog(join);
  if (is_new && job_.journal.catalog_record()) {
    if (std::string text = EmptyShardsText(job_); !text.empty()) out->Log(Severity::kWarning, std::move(text));
  }
  if (!status.ok()) {
    out->Log(Severity::kWarning, "refused: " + status.message());
    out->Audit(AuditKind::kRefused, status.message(), who);
    job_.metrics->joins_refused.Add(1);
    RefuseTo(from, Code::kRefused, status.message(), out);
    return;
  }
  if (join.catalog.empty()) {
    View view = MakeView(job_, nullptr);
    view.job_file = job_.options.job_file;
    if (job_.journal.catalog_record()) view.catalog = job_.journal.catalog_record()->tensors;
    out->Send(from, std::move(view));
    return;
  }
  const Worker* same = job_.members.Find(join.worker);
  if (same != nullptr && same->nonce == join.nonce) {  // a repeated Join
    Worker* worker = job_.members.Find(same->session);
    worker->peer = from;
    worker->last_message = now;
    SendView(&job_, worker, out);
    return;
  }
  if (const std::string* why = job_.members.set_aside().Find(join.worker)) {
    RefuseTo(from, Code::kRefused, *why, out);
    out->Audit(AuditKind::kRefused, "\"" + join.worker + "\" was set aside", who);
    return;
  }
  if (job_.members.IsSuperseded(join.nonce)) {
    RefuseTo(from, Code::kRefused,
             "a newer process has joined as \"" + join.worker + "\"; this one is the older and ends", out);
    out->Audit(AuditKind::kRefused, "\"" + join.worker + "\" is the older of two processes of that name", who);
    return;
  }
  if (const Status quota = CheckQuota(sender, join, job_.members); !quota.ok()) {
    RefuseTo(from, quota.code(), quota.message(), out);
    out->LogAndAudit(Severity::kWarning, AuditKind::kRefused, "refused: " + quota.message(), who);
    return;
  }
  if (same == nullptr && job_.members.full()) {
    RefuseTo(from, Code::kBusy, "the job has all the workers it can hold", out);
    out->Audit(AuditKind::kRefused, "\"" + join.worker + "\": the job has all the workers it can hold", who);
    return;
  }
  if (!job_.members.TakeJoin(now)) {
    out->Log(Severity::kWarning, "more processes join than the job has time for; \"" + join.worker + "\" has to wait");
    return RefuseTo(from, Code::kBusy, "too many processes join; this one may ask again in a moment", out);
  }
  if (same != nullptr) {
    RefuseTo(same->peer, Code::kRefused,
             "another process joined as \"" + join.worker + "\"; this one is the older and ends", out);
    out->LogAndAudit(Severity::kWarning, AuditKind::kTookOver,
                     "\"" + join.worker + "\" joined again from another process; the newer one takes over", who);
    out->Audit(AuditKind::kLost, "\"" + join.worker + "\" was lost, and another process of its name has joined",
               Describe(same->principal));
    job_.members.Remove(same->session);
  }
  Worker worker;
  worker.session = job_.DrawSession();
  worker.name = join.worker;
  worker.nonce = join.nonce;
  worker.peer = from;
  worker.principal = sender;
  worker.last_message = now;
  worker.rank = join.rank;
  worker.machine = join.machine;
  if (IsPagesAddress(join.metrics)) worker.metrics = join.metrics;
  job_.ranks.NoteMessage(worker, now);
  out->Audit(AuditKind::kJoined, DescribeJoin(worker), who);
  if (job_.members.IsRestart(worker.name, worker.nonce)) job_.metrics->restarts[monitoring::Member::kWorker].Add(1);
  job_.members.Add(std::move(worker));
  job_.metrics->joins.Add(1);
  out->Log(Severity::kInfo, "\"" + join.worker + "\" joined (" +
                                HowMany(job_.members.size(), job_.options.config.cluster.workers) + ")");
  course_.Reassign(out);
  course_.Advance(now, out);
}

void Coordinator::On(PeerId from, const Heartbeat& beat, Instant now, Outbox* out) {
  if (beat.session.value == 0) {  // from a reader
    job_.followers.NoteMessage(beat.nonce, now);
    out->Send(from, MakeView(job_, nullptr));
    return;
  }
  Worker* worker = job_.members.Find(beat.session);
  if (worker == nullptr || worker->nonce != beat.nonce) {
    RefuseTo(from, Code::kStale, "unknown session; join again", out);
    return;
  }
  worker->peer = from;
  worker->last_message = now;
  job_.ranks.NoteMessage(*worker, now);
  const bool news =
      worker->generation != beat.generation || worker->step != beat.step || worker->computing != beat.computing;
  if (news) worker->pace.since = now;
  worker->generation = beat.generation;
  worker->step = beat.step;
  worker->computing = beat.computing;
  worker->pace.ahead = StepsAhead(beat.step, job_.steps->step());
  worker->pace.time.Take(beat.spent.all_us, {beat.spent.input_us, beat.spent.exchange_us, beat.spent.commit_us}, now);
  worker->view_sequence = beat.view_sequence;
  worker->missing = beat.missing;
  const bool enters_barrier = worker->barrier != beat.barrier;  // for the same barrier the check in Tick is enough
  worker->barrier = beat.barrier;
  if (job_.machine_groups && (worker->group.epoch != beat.group_epoch || worker->group.state != beat.group)) {
    worker->group.epoch = beat.group_epoch;
    worker->group.state = beat.group;
    worker->group.text = beat.group_text;
    NoteMachineGroup(&job_, *worker, now, out);
  }
  const bool news_of_group = worker->group.state != beat.group || worker->group.text != beat.group_text;
  if (job_.group && beat.generation == job_.journal.generation() && news_of_group) {
    worker->group.state = beat.group;
    worker->group.text = beat.group_text;
    course_.NoteGroup(*worker, out);
    course_.Advance(now, out);
    worker = job_.members.Find(beat.session);
  }
  if (job_.uploaders.keeper &&
      job_.uploaders.keeper->Take(worker->session, {beat.generation, beat.has_version, beat.loads})) {
    course_.Advance(now, out);
    worker = job_.members.Find(beat.session);
  }
  if (enters_barrier) PassBarrierWhenComplete(&job_, out);
  SendView(&job_, worker, out);
}

void Coordinator::On(const Leave& leave, Instant, Outbox* out) {
  if (leave.session.value == 0) job_.followers.Left(leave.nonce);
  const Worker* worker = job_.members.Find(leave.session);
  if (worker == nullptr || worker->nonce != leave.nonce) return;
  if (job_.state.now() != State::kFinished && job_.state.now() != State::kFailed) {
    out->Log(Severity::kInfo,
             "\"" + worker->name + "\" left: " + (leave.reason.empty() ? "asked to" : Excerpt(leave.reason)));
  }
  out->Audit(AuditKind::kLeft,
             "\"" + worker->name + "\": " + (leave.reason.empty() ? "asked to" : Excerpt(leave.reason)),
             Describe(worker->principal));
  job_.members.Remove(leave.session);
  course_.Reassign(out);
}

bool Coordinator::HandleTeam(PeerId from, const Message& message, Instant now, Outbox* out) {
  const auto* ask = message.header.As<TeamAsk>();
  const auto* give = message.header.As<TeamGive>();
  if (ask == nullptr && give == nullptr) return false;
  Worker* worker = job_.members.Find(ask != nullptr ? ask->session : give->session);
  if (worker == nullptr || (ask != nullptr && worker->nonce != ask->nonce)) {
    if (ask != nullptr) RefuseTo(from, Code::kStale, "unknown session; join again", out);
    return true;
  }
  if (ask != nullptr) {  // a TeamGive proves nothing of its sender
    worker->peer = from;
    worker->last_message = now;
  }
  const Teams::Facts facts = TeamFacts(job_);
  const bool completed = ask != nullptr ? teams_.Handle(*worker, *ask, facts, out)
                                        : teams_.Handle(*worker, *give, message.payload, facts, out);
  // A collective call that all have made is progress, too: a job does not stand still while its program evaluates.
  if (completed) job_.clock.Restart(now);
  return true;
}

void Coordinator::WorkerDied(const std::string& name, Instant, Outbox* out) {
  const Worker* worker = job_.members.Find(name);
  if (worker == nullptr) return;
  out->LogAndAudit(Severity::kWarning, AuditKind::kLost, "\"" + name + "\" died; its slots move",
                   Describe(worker->principal));
  job_.members.Remove(worker->session);
  job_.metrics->leases_lost.Add(1);
  course_.Reassign(out);
}

// ---- time ----------------------------------------------------------------------------------------------------------

void Coordinator::Tick(Instant now, Outbox* out) {
  if (const Instant pause = job_.clock.Tick(now); pause > Instant{}) {
    job_.members.RenewAll(now);
    job_.shards.ForgivePause(pause, now);
    job_.followers.ForgivePause(pause, now);
  }
  if (now >= next_ping_) {
    next_ping_ = now + (job_.ending.shutting_down ? kShutdownEvery : kPingEvery);
    for (ShardIndex i = 0; i < job_.shards.size(); ++i) {
      const PeerId peer = job_.shards[i].peer;
      if (peer.value == 0) continue;
      if (job_.ending.shutting_down) {
        out->Send(peer, capstan::Shutdown{job_.journal.term(), job_.journal.generation()});
      } else {
        out->Send(peer, Ping{job_.journal.term(), job_.journal.generation()});
        job_.told.sessions.NotePing(i);
        if (job_.IsServing()) job_.steps->AddToPing(peer, out);
      }
    }
  }
  // A finished job drops no silent reader, because the last snapshot and the final weights may take longer than a
  // lease.
  if (job_.state.now() != State::kFinished) job_.followers.ForgetBefore(now - job_.lease());
  for (const Worker& lost : job_.members.RemoveSilent(now, job_.lease())) {
    job_.metrics->leases_lost.Add(1);
    out->LogAndAudit(
        Severity::kWarning, AuditKind::kLost,
        "\"" + lost.name + "\" has been silent for " + WholeSeconds(now - lost.last_message) + "; its slots move",
        Describe(lost.principal));
    course_.Reassign(out);
  }
  RenewMachineGroups(&job_, now, out);
  course_.Advance(now, out);
  job_.steps->Repeat(now, out);
  HelpSlowWorkers(&job_, now, out);
  PassBarrierWhenComplete(&job_, out);  // a missing worker may have left
  teams_.Tick(TeamFacts(job_), out);
  (void)TellShards(&job_, TellWhen::kNow, out);
  job_.told.sessions.BeginTurn();
  SendDueViews(&job_, out);
  CheckDeadlines(now, out);
  CountMembers(job_, now);
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
