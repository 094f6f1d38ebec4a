#include "server/coordinator/coordinator.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/error.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/shard_orders.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/stragglers.h"
#include "server/coordinator/waiting.h"

namespace capstan::server {

namespace {

constexpr Instant kPingEvery = std::chrono::seconds(1);
constexpr Instant kShutdownEvery = std::chrono::milliseconds(50);

std::string NameSuspects(const Job& job, const std::vector<SlotIndex>& slots) {
  std::string names;
  for (SlotIndex slot : slots) {
    std::string name = "slot " + std::to_string(slot);
    for (const auto& [session, worker] : job.members.workers()) {
      for (SlotIndex held : worker.slots) {
        if (held == slot) name += " (worker \"" + worker.name + "\")";
      }
    }
    AddName(&names, name);
  }
  return names.empty() ? "" : ". The loss itself was not finite in " + names;
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, CoordinatorLog* log,
                         std::shared_ptr<monitoring::CoordinatorMetrics> metrics, Instant now)
    : job_(std::move(options), log, std::move(metrics), now),
      next_report_(now + FromSeconds(job_.options.config.limits.report)) {
  CAPSTAN_CHECK(job_.slot_count() > 0 && job_.shards.size() > 0);
}

void Coordinator::Append(LogRecord record) {
  if (Status status = job_.journal.Append(std::move(record)); !status.ok()) job_.state.Fail(std::move(status));
}

void Coordinator::Fail(Status reason, Outbox* out) {
  if (job_.state.now() == State::kFailed) return;
  job_.state.Fail(std::move(reason));
  out->Say(Severity::kError, job_.state.failure().message());
  SendViews(out);
}

Coordinator::~Coordinator() = default;

void Coordinator::Handle(PeerId from, const Message& message, Instant now, Outbox* out) {
  const auto take = [&](const auto& body) { On(from, body, now, out); };
  const Header& header = message.header;
  if (header.VisitAs<Hello, Join, Beat, ResetDone, Prepared, Committed, Progress, ResetBad, SnapshotDone>(take)) return;
  if (const auto* leave = header.As<Leave>()) return On(*leave, now, out);
  if (header.Is<Error>()) return;
  RefuseTo(from, Code::kInvalid, "the coordinator does not take this message", out);
}

void Coordinator::RefuseTo(PeerId to, Code code, std::string message, Outbox* out, Incarnation life) const {
  Error error;
  error.incarnation = life;
  error.code = code;
  error.generation = job_.journal.generation();
  error.step = job_.steps->step();
  error.message = std::move(message);
  out->Send(to, std::move(error));
}

// ---- the course of a job -------------------------------------------------------------------------------------------

void Coordinator::Advance(Instant now, Outbox* out) {
  if (job_.state.now() == State::kCollecting) LeaveCollecting(now, out);
  if (job_.state.now() == State::kRunning) KeepFounder(now, out);
  if (job_.state.now() == State::kRunning && job_.group && job_.group->request()) FormGroupAnew(now, out);
  if (job_.state.now() == State::kResetting) {
    job_.shards.AllHaveBegun() ? EnterRunning(now, out) : SendResets(now, out);
  }
  if (job_.state.now() == State::kRunning) DecideSteps(now, out);
  AdvanceSnapshots(now, out);
}

bool Coordinator::AcknowledgesDurably() const { return job_.options.config.job.acknowledge == Acknowledge::kDurable; }

bool Coordinator::EnoughMembers(Instant now) const {
  if (job_.members.size() >= job_.options.config.cluster.workers) return true;
  return job_.members.size() >= job_.options.config.cluster.min_workers &&
         now - job_.clock.started() >= FromSeconds(job_.options.config.limits.join / 2);
}

void Coordinator::LeaveCollecting(Instant now, Outbox* out) {
  if (!job_.shards.AllHaveOurTerm() || !job_.journal.catalog()) return;
  if (overruled_) {
    if (AcknowledgesDurably()) SayLost("the rollback was accepted", out);
    StartRecovery(Recovery::kGoBack, now, out);
  } else if (job_.journal.running() && ShardsLiveOn()) {
    ResumeRunning(now, out);
  } else if (job_.journal.has_begun() && !job_.journal.running()) {
    job_.state.On(JobEvent::kFoundGeneration);  // the coordinator died between RECOVER and RUNNING: continue there
  } else if (EnoughMembers(now) || job_.journal.has_begun()) {
    StartRecovery(Recovery::kGoOn, now, out);
  }
}

// Whether every shard still holds the running generation.
bool Coordinator::ShardsLiveOn() const {
  if (job_.journal.AwaitsInitialWeights())
    return false;  // this coordinator does not know whose weights they have, and how many
  if (job_.journal.running()->incarnations.size() != job_.shards.size()) return false;
  for (ShardIndex i = 0; i < job_.shards.size(); ++i) {
    const Hello& hello = *job_.shards[i].hello;
    if (!hello.serving || hello.generation != job_.journal.generation() ||
        hello.incarnation != job_.journal.running()->incarnations[i])
      return false;
  }
  return true;
}

// A new coordinator takes over a running generation.
void Coordinator::ResumeRunning(Instant now, Outbox* out) {
  job_.state.On(JobEvent::kFoundRunning);
  job_.clock.Restart(now);
  job_.records.Begin(now);
  job_.steps->Resume(now, out);
  // Only the previous coordinator knew the slots, and the ranks in the group.
  if (job_.group) return AskForGroup("another coordinator leads it", false, out);
  DealSlots(out);
  SendViews(out);
}

void Coordinator::DecideSteps(Instant now, Outbox* out) {
  Steps& steps = *job_.steps;
  if (steps.parameters().stop && steps.AllPublished()) return Finish(out);
  if ((job_.stopping() && steps.parameters().held) || (job_.group && job_.group->request())) return;
  const Step before = steps.step();
  Steps::Decision decision = steps.Decide(job_.snapshots, job_.stopping(), now, out);
  if (!decision.failure.ok()) {
    return Fail({decision.failure.code(), decision.failure.message() + NameSuspects(job_, decision.suspects)}, out);
  }
  if (decision.snapshot) job_.snapshots.Begin({job_.journal.generation(), *decision.snapshot}, now);
  for (StepRecord& record : decision.records) job_.records.Add(std::move(record), now);
  if (!decision.reports.empty() && steps.step() != before &&
      job_.equal_slots.See(job_.journal.generation(), before, decision.reports, job_.members)) {
    out->Say(Severity::kWarning, job_.equal_slots.text());
  }
  if (steps.step() != before) {
    job_.view_sequence += ForgetBackups(&job_.members);  // each learns of this with its next Beat
    job_.clock.Progress(now);
    if (job_.stopping()) job_.ending.stop_since = now;  // the next step gets its full time too
    steps.Announce(now, out);
  }
  if (decision.ended) Finish(out);
}

// The last step is on every shard: the job is done.
void Coordinator::Finish(Outbox* out) {
  job_.state.On(JobEvent::kLastStepPublished);
  job_.snapshots.Retry();
  ++job_.view_sequence;
  SendViews(out);
}

std::vector<StepRecord> Coordinator::TakeRecords() { return job_.records.Take(); }

// ---- time ----------------------------------------------------------------------------------------------------------

void Coordinator::Tick(Instant now, Outbox* out) {
  if (const Instant pause = job_.clock.Tick(now); pause > Instant{}) {
    job_.members.RenewAll(now);
    job_.shards.ForgivePause(pause);
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
  if (job_.state.now() != State::kFinished) job_.followers.ForgetBefore(now - job_.lease());  // then each has one lease
  for (const Worker& lost : job_.members.RemoveSilent(now, job_.lease())) {
    job_.metrics->leases_lost.Add(1);
    out->Say(Severity::kWarning,
             "\"" + lost.name + "\" has been silent for " + WholeSeconds(now - lost.last_heard) + "; its slots move");
    Reassign(out);
  }
  RenewLocalGroups(now, out);
  Advance(now, out);
  job_.steps->Repeat(now, out);
  HelpSlowWorkers(now, out);
  PassBarrierWhenComplete(out);  // a missing worker may have left
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
  if (Status overdue = Overdue(job_, now); !overdue.ok()) return Fail(std::move(overdue), out);
  if (now < next_report_) return;
  const std::string line = WaitingLine(job_, now);
  if (line.empty()) return;
  next_report_ = now + FromSeconds(job_.options.config.limits.report);
  out->Say(Severity::kWarning, line);
}

void Coordinator::Shutdown() {
  job_.ending.shutting_down = true;
  next_ping_ = Instant{};
}

}  // namespace capstan::server
