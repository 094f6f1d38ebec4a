// The shards' reports to the coordinator: their identity and their progress.
#include <algorithm>

#include "common/base/host_port.h"
#include "common/config/job/job_section.h"
#include "common/wire/messages/shard_orders.h"
#include "common/wire/messages/shard_reports.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/hello_check.h"

namespace capstan::server {

namespace {

// Whether the report is from the incarnation with which the newest generation runs.
template <class Report>
bool IsFromRunning(PeerId from, const Report& report, const Job& job) {
  return job.shards.Is(from, report.shard) && report.generation == job.journal.generation() &&
         report.incarnation == job.journal.running()->incarnations[report.shard];
}

}  // namespace

// Whether a shard that is ahead of the log is taken back, as the operator has accepted. Every shard must then echo a
// term newer than all of theirs, and the next generation is above all of theirs.
bool Coordinator::Overrules(const Hello& hello, Outbox* out) {
  if (!job_.options.accept_rollback || job_.state.now() != State::kCollecting) return false;
  const Generation seen = std::max(hello.generation, hello.newest_kept.generation);
  if (!overruled_)
    out->Say(Severity::kWarning, "rolling back: the log counts, and what shards know beyond it does not");
  overruled_ = std::max(overruled_.value_or(job_.journal.generation()), seen);
  if (hello.term <= job_.journal.term()) return true;
  Append(TermRecord{hello.term.Next()});
  job_.shards.BeginTerm();
  return true;
}

std::string Coordinator::WhatALossCosts() const {
  if (AcknowledgesDurably()) return " with its log";
  return std::string("; every shard goes back to ") +
         (job_.journal.manifests().empty() ? "step 0" : "the newest snapshot");
}

void Coordinator::On(PeerId from, const Hello& hello, Instant now, Outbox* out) {
  if (Status status = CheckHello(hello, job_.facts); !status.ok()) {
    RefuseTo(from, status.code(), status.message(), out, hello.incarnation);
    out->Say(Severity::kWarning, status.message());
    return;
  }
  if (std::string beyond = BeyondLog(hello, job_.facts); !beyond.empty() && !Overrules(hello, out)) {
    if (job_.shards.NoteBeyondLog(hello.shard, beyond)) out->Say(Severity::kWarning, beyond);
    RefuseTo(from, Code::kStale, beyond, out, hello.incarnation);  // the shard keeps waiting
    return;
  }
  const ShardTable::Admission admission = job_.shards.Admit(from, hello, job_.journal, now);
  if (const auto& refusal = admission.refusal) {
    if (refusal->for_log) out->Say(Severity::kWarning, refusal->why);
    RefuseTo(refusal->to, Code::kRefused, refusal->why, out, refusal->incarnation);
  }
  if (!admission.accepted) return;
  if (admission.replaces) job_.steps->ForgetShard(hello.shard);
  if (!job_.shards[hello.shard].has_our_term) {
    out->Send(from, Ping{job_.journal.term(), job_.journal.generation()});
    return;
  }
  if (job_.IsServing() && hello.incarnation > job_.journal.running()->incarnations[hello.shard]) {
    const std::string cause = job_.shards.NameOf(hello.shard) + " was lost and came back";
    job_.clock.SetCause(cause);
    out->Say(Severity::kWarning, cause + WhatALossCosts());
    StartRecovery(Recovery::kGoOn, now, out);
  }
  Advance(now, out);
}

void Coordinator::On(PeerId from, const ResetDone& done, Instant now, Outbox* out) {
  if (job_.state.now() != State::kResetting || !job_.shards.Is(from, done.shard) ||
      done.generation != job_.journal.generation())
    return;
  const std::optional<Hello>& hello = job_.shards[done.shard].hello;
  if (!hello || hello->incarnation != done.incarnation) return;
  job_.shards.NoteBegun(done.shard, now);
  Advance(now, out);
}

void Coordinator::On(PeerId from, const ResetBad& bad, Instant now, Outbox* out) {
  if (job_.state.now() != State::kResetting || !job_.shards.Is(from, bad.shard) ||
      bad.generation != job_.journal.generation())
    return;
  if (job_.shards[bad.shard].hello->incarnation != bad.incarnation) return;
  const std::string who = job_.shards.NameOf(bad.shard);
  if (job_.journal.recover().snapshot.IsNone() && !job_.journal.ContinuesTimeline())
    return Fail(Refused(who + " cannot begin the job: " + bad.reason), out);
  FallBack(who + ": " + bad.reason, now, out);
}

void Coordinator::On(PeerId from, const Prepared& prepared, Instant now, Outbox* out) {
  if (job_.state.now() != State::kRunning || !IsFromRunning(from, prepared, job_)) return;
  job_.shards.Heard(prepared.shard, now);
  if (job_.steps->Take(prepared, now, out)) Advance(now, out);
}

void Coordinator::On(PeerId from, const Committed& committed, Instant now, Outbox* out) {
  if (job_.state.now() != State::kRunning || !IsFromRunning(from, committed, job_)) return;
  if (!job_.steps->Take(committed)) return;
  job_.shards.Heard(committed.shard, now);
  Advance(now, out);
}

void Coordinator::On(PeerId from, const Progress& progress, Instant now, Outbox* out) {
  if (job_.state.now() != State::kRunning || !IsFromRunning(from, progress, job_)) return;
  if (!job_.steps->Take(progress)) return;
  job_.shards.Heard(progress.shard, now);
  DecideSteps(now, out);
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

}  // namespace capstan::server
