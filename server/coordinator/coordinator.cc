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

namespace capstan::server {

namespace {

constexpr Instant kPingEvery = std::chrono::seconds(1);
constexpr Instant kShutdownEvery = std::chrono::milliseconds(50);
constexpr Instant kPauseLeast = std::chrono::seconds(2);  // between two Ticks; the loop calls Tick ten times a second

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, CoordinatorLog* log,
                         std::shared_ptr<monitoring::CoordinatorMetrics> metrics, Instant now)
    : job_(std::move(options), log, std::move(metrics), now),
      equal_slots_(job_.options.config.model.built_in() ? 0 : EqualSlots::kStepsSeen),
      started_(now),
      last_progress_(now),
      next_report_(now + FromSeconds(job_.options.config.limits.report)),
      last_tick_(now) {
  CAPSTAN_CHECK(job_.slot_count > 0 && job_.shards.size() > 0);
  if (ReducesLocally(job_.options.config)) local_groups_.emplace(job_.journal.term());
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
  if (job_.state.now() == State::kRunning && regroup_) FormGroupAnew(now, out);
  if (job_.state.now() == State::kResetting) {
    job_.shards.AllHaveBegun() ? EnterRunning(now, out) : SendResets(now, out);
  }
  if (job_.state.now() == State::kRunning) DecideSteps(now, out);
  AdvanceSnapshots(now, out);
}

Instant Coordinator::lease() const { return FromSeconds(job_.options.config.limits.lease); }

bool Coordinator::AcknowledgesDurably() const { return job_.options.config.job.acknowledge == Acknowledge::kDurable; }

bool Coordinator::EnoughMembers(Instant now) const {
  if (members_.size() >= job_.options.config.cluster.workers) return true;
  return members_.size() >= job_.options.config.cluster.min_workers &&
         now - started_ >= FromSeconds(job_.options.config.limits.join / 2);
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
  last_progress_ = now;
  job_.records.Begin(now);
  job_.steps->Resume(now, out);
  // Only the previous coordinator knew the slots, and the ranks in the group.
  if (WorkersUpdate(job_.options.config.mode())) {
    return AskForGroup("another coordinator leads it", Recovery::kRegroup, out);
  }
  DealSlots(out);
  SendViews(out);
}

void Coordinator::DecideSteps(Instant now, Outbox* out) {
  Steps& steps = *job_.steps;
  if (steps.parameters().stop && steps.AllPublished()) return Finish(out);
  if ((stop_requested_ && steps.parameters().held) || regroup_) return;
  const Step before = steps.step();
  Steps::Decision decision = steps.Decide(job_.snapshots, stop_requested_, now, out);
  if (!decision.failure.ok()) {
    return Fail({decision.failure.code(), decision.failure.message() + NameSuspects(decision.suspects)}, out);
  }
  if (decision.snapshot) job_.snapshots.Begin({job_.journal.generation(), *decision.snapshot}, now);
  for (StepRecord& record : decision.records) job_.records.Add(std::move(record), now);
  if (!decision.reports.empty() && steps.step() != before &&
      equal_slots_.See(job_.journal.generation(), before, decision.reports, members_)) {
    out->Say(Severity::kWarning, equal_slots_.text());
  }
  if (steps.step() != before) {
    ForgetBackups();
    NoteProgress(now);
    if (stop_requested_) stop_since_ = now;  // the next step gets its full time too
    steps.Announce(now, out);
  }
  if (decision.ended) Finish(out);
}

std::string Coordinator::NameSuspects(const std::vector<SlotIndex>& slots) const {
  std::string names;
  for (SlotIndex slot : slots) {
    std::string name = "slot " + std::to_string(slot);
    for (const auto& [session, worker] : members_.workers()) {
      for (SlotIndex held : worker.slots) {
        if (held == slot) name += " (worker \"" + worker.name + "\")";
      }
    }
    AddName(&names, name);
  }
  return names.empty() ? "" : ". The loss itself was not finite in " + names;
}

// The last step is on every shard: the job is done.
void Coordinator::Finish(Outbox* out) {
  job_.state.On(JobEvent::kLastStepPublished);
  job_.snapshots.Retry();
  ++view_sequence_;
  SendViews(out);
}

std::vector<StepRecord> Coordinator::TakeRecords() { return job_.records.Take(); }

// ---- time ----------------------------------------------------------------------------------------------------------

// While this process was paused, it read no messages: no member counts as silent, and the pause is not job time.
void Coordinator::ForgivePause(Instant now) {
  const Instant pause = now - std::exchange(last_tick_, now);
  if (pause < kPauseLeast) return;
  members_.RenewAll(now);
  job_.shards.ForgivePause(pause);
  last_progress_ += pause;
}

void Coordinator::Tick(Instant now, Outbox* out) {
  ForgivePause(now);
  if (now >= next_ping_) {
    next_ping_ = now + (shutting_down_ ? kShutdownEvery : kPingEvery);
    for (const ShardEntry& shard : job_.shards) {
      if (shard.peer.value == 0) continue;
      if (shutting_down_) {
        out->Send(shard.peer, capstan::Shutdown{job_.journal.term(), job_.journal.generation()});
      } else {
        out->Send(shard.peer, Ping{job_.journal.term(), job_.journal.generation()});
        if (job_.IsServing()) job_.steps->AddToPing(shard.peer, out);
      }
    }
  }
  if (job_.state.now() != State::kFinished) followers_.ForgetBefore(now - lease());  // then each has one lease
  for (const Worker& lost : members_.RemoveSilent(now, lease())) {
    job_.metrics->leases_lost.Add(1);
    out->Say(Severity::kWarning,
             "\"" + lost.name + "\" has been silent for " + WholeSeconds(now - lost.last_heard) + "; its slots move");
    Reassign(out);
  }
  RenewLocalGroups(now, out);
  Advance(now, out);
  job_.steps->Repeat(now, out);
  BackUpSlowWorkers(now, out);
  PassBarrierWhenComplete(out);  // a missing worker may have left
  CheckDeadlines(now, out);
  const bool waits = job_.state.now() != State::kFinished || AwaitsLastSnapshot();
  job_.metrics->waiting_seconds.Set(waits ? ToSeconds(now - last_progress_) : 0.0);
  job_.metrics->workers[monitoring::MemberState::kAlive].Set(members_.size());
  const auto seen = std::count_if(job_.shards.begin(), job_.shards.end(),
                                  [](const ShardEntry& shard) { return shard.hello.has_value(); });
  const auto alive = std::count_if(job_.shards.begin(), job_.shards.end(),
                                   [&](const ShardEntry& shard) { return shard.hello && !shard.IsSilent(now); });
  job_.metrics->shards[monitoring::MemberState::kAlive].Set(alive);
  job_.metrics->shards[monitoring::MemberState::kLost].Set(seen - alive);
}

void Coordinator::Shutdown() {
  shutting_down_ = true;
  next_ping_ = Instant{};
}

}  // namespace capstan::server
