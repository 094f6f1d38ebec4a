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
#include "server/coordinator/coordinator_shard.h"
#include "server/coordinator/coordinator_text.h"
#include "server/storage/manifests.h"

namespace capstan::server {

namespace {

constexpr Instant kPingEvery = std::chrono::seconds(1);
constexpr std::size_t kStepsMeasured = 64;
constexpr Instant kShutdownEvery = std::chrono::milliseconds(50);
constexpr Instant kSnapshotAfterStart = std::chrono::seconds(1);
constexpr Instant kPauseLeast = std::chrono::seconds(2);  // between two Ticks; the loop calls Tick ten times a second

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, CoordinatorLog* log,
                         std::shared_ptr<monitoring::CoordinatorMetrics> metrics, Instant now)
    : job_(std::move(options), log, std::move(metrics)),
      config_hash_(HashJobConfig(job_.options.config)),
      shards_(job_.options.config.shard_count()),
      equal_slots_(job_.options.config.model.built_in() ? 0 : EqualSlots::kStepsSeen),
      clocks_(std::vector<std::uint64_t>(job_.options.config.shard_count())),
      started_(now),
      last_progress_(now),
      last_commit_(now),
      next_report_(now + Seconds(job_.options.config.limits.report)),
      last_tick_(now) {
  CAPSTAN_CHECK(job_.slot_count > 0 && !shards_.empty());
  if (Status status = job_.journal.Open(); !status.ok()) {
    job_.state.Fail(std::move(status));
  } else if (job_.journal.concluded()) {
    job_.state.On(JobEvent::kFoundConcluded);
  }
  // The log does not record when the newest snapshot was taken: in a job that has begun, one is due soon.
  last_snapshot_ =
      job_.journal.has_begun() ? now + kSnapshotAfterStart - Seconds(job_.options.config.snapshot.every_seconds) : now;
  if (ReducesLocally(job_.options.config)) local_groups_.emplace(job_.journal.term());
  job_.metrics->steps_wanted.Set(static_cast<double>(job_.options.config.job.steps));
  job_.metrics->slots.Set(static_cast<double>(job_.slot_count));
  job_.metrics->term.Set(static_cast<double>(job_.journal.term().value));
  job_.metrics->generation.Set(static_cast<double>(job_.journal.generation().value));
  if (job_.journal.manifests().empty()) return;
  job_.metrics->snapshot_version.Set(static_cast<double>(job_.journal.manifests().back().id.version.value));
  job_.metrics->snapshot_bytes.Set(static_cast<double>(job_.journal.manifests().back().bytes));
}

Instant Coordinator::Seconds(double seconds) {
  return std::chrono::duration_cast<Instant>(std::chrono::duration<double>(seconds));
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

bool Coordinator::IsShard(PeerId from, ShardIndex shard) const {
  return shard < shards_.size() && shards_[shard].peer == from;
}

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
  error.step = step_;
  error.message = std::move(message);
  out->Send(to, std::move(error));
}

// ---- the course of a job -------------------------------------------------------------------------------------------

void Coordinator::Advance(Instant now, Outbox* out) {
  if (job_.state.now() == State::kCollecting) LeaveCollecting(now, out);
  if (job_.state.now() == State::kRunning) KeepFounder(now, out);
  if (job_.state.now() == State::kRunning && regroup_) FormGroupAnew(now, out);
  if (job_.state.now() == State::kResetting) {
    const bool all = std::all_of(shards_.begin(), shards_.end(), [](const ShardState& s) { return s.reset_done; });
    if (all) EnterRunning(now, out);
    if (!all) SendResets(now, out);
  }
  if (job_.state.now() == State::kRunning) DecideStep(now, out);
  AdvanceSnapshots(now, out);
}

Instant Coordinator::lease() const { return Seconds(job_.options.config.limits.lease); }

bool Coordinator::AcknowledgesDurably() const { return job_.options.config.job.acknowledge == Acknowledge::kDurable; }

bool Coordinator::EnoughMembers(Instant now) const {
  if (members_.size() >= job_.options.config.cluster.workers) return true;
  return members_.size() >= job_.options.config.cluster.min_workers &&
         now - started_ >= Seconds(job_.options.config.limits.join / 2);
}

void Coordinator::LeaveCollecting(Instant now, Outbox* out) {
  const bool all = std::all_of(shards_.begin(), shards_.end(), [](const ShardState& shard) { return shard.fresh; });
  if (!all || !job_.journal.catalog()) return;
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
  if (job_.journal.running()->incarnations.size() != shards_.size()) return false;
  for (ShardIndex i = 0; i < shards_.size(); ++i) {
    const Hello& hello = *shards_[i].hello;
    if (!hello.serving || hello.generation != job_.journal.generation() ||
        hello.incarnation != job_.journal.running()->incarnations[i])
      return false;
  }
  return true;
}

// A new coordinator takes over a running generation. Some shards may have published one step more than others: that
// step's Commit is sent again with the new term, and otherwise verbatim.
void Coordinator::ResumeRunning(Instant now, Outbox* out) {
  job_.state.On(JobEvent::kFoundRunning);
  last_progress_ = last_commit_ = now;
  const ShardState* newest = &shards_.front();
  for (const ShardState& shard : shards_) {
    if (shard.hello->version > newest->hello->version) newest = &shard;
  }
  step_ = Step{newest->hello->version.value};
  parameters_ = job_.journal.recover().parameters;
  if (!HasGlobalSteps(job_.options.config.mode())) parameters_ = ParametersOf(job_.options.config, step_, step_.value);
  attempt_ = 0;  // shards may be at different attempts; Decide is pure, so a Redo is decided again
  pending_.reset();
  if (newest->hello->last_commit) {
    Commit commit = *newest->hello->last_commit;
    commit.term = job_.journal.term();
    parameters_ = commit.next;
    pending_ = commit;
  }
  for (ShardState& shard : shards_) {
    if (shard.hello->version.value > 0) shard.committed = Step{shard.hello->version.value - 1};
    shard.prepared = shard.hello->prepared;
    if (shard.prepared && shard.prepared->step != step_) shard.prepared.reset();
  }
  prepared_count_.reset();
  pending_backoff_.Restart();
  SendPending(now, out);
  held_ = parameters_.held
              ? step_
              : Step{std::max(job_.journal.recover().snapshot, job_.journal.newest_snapshot()).version.value};
  // Only the previous coordinator knew the slots, and the ranks in the group.
  if (WorkersUpdate(job_.options.config.mode())) {
    return AskForGroup("another coordinator leads it", Recovery::kRegroup, out);
  }
  DealSlots(out);
  SendViews(out);
}

void Coordinator::DecideStep(Instant now, Outbox* out) {
  if (parameters_.stop) return FinishWhenCommitted(out);
  if (stop_requested_ && parameters_.held) return;
  if (regroup_) return;
  // A shard that an earlier coordinator asked for a Redo may already be at a later attempt.
  const std::vector<const Prepared*> prepared = AllPrepared();
  if (prepared.empty()) return;
  Verdict verdict = Decide(job_.options.config, *job_.journal.catalog(), *job_.journal.segment_order(), prepared,
                           attempt_, parameters_);
  pending_backoff_.Restart();
  switch (verdict.kind) {
    case Verdict::Kind::kStop: Fail(Refused(verdict.reason + NameSuspects(verdict.suspects)), out); return;
    case Verdict::Kind::kRedo:
      ++attempt_;
      job_.metrics->steps_redone.Add(1);
      pending_ = Redo{job_.journal.term(), job_.journal.generation(),      step_, attempt_,
                      verdict.clip,        std::move(verdict.trust_ratios)};
      SendPending(now, out);
      DecideStep(now, out);
      return;
    case Verdict::Kind::kCommit: break;
  }
  (verdict.action == StepAction::kApply ? job_.metrics->steps_applied : job_.metrics->steps_skipped).Add(1);
  if (WorkersUpdate(job_.options.config.mode())) {
    verdict.next.held = parameters_.keep;
    verdict.next.snapshot =
        !verdict.next.stop && parameters_.keep && !snapshot_ && job_.options.config.snapshot.enabled();
    verdict.next.keep = !verdict.next.stop && KeepDue(step_.Next(), job_.journal.recover().snapshot.version,
                                                      verdict.next.snapshot ? now : last_snapshot_, now);
  } else {
    verdict.next.snapshot =
        !verdict.next.stop && SnapshotDue(step_.Next(), job_.journal.recover().snapshot.version, last_snapshot_, now);
  }
  if (verdict.next.snapshot) BeginSnapshot({job_.journal.generation(), Version{step_.value + 1}}, now);
  pending_ = Commit{job_.journal.term(), job_.journal.generation(), step_, attempt_, verdict.action, verdict.next};
  Record(std::move(verdict.record), now);
  if (equal_slots_.See(job_.journal.generation(), step_, prepared, members_))
    out->Say(Severity::kWarning, equal_slots_.text());
  step_ = step_.Next();
  if (verdict.next.held) held_ = step_;
  ForgetBackups();
  attempt_ = 0;
  parameters_ = verdict.next;
  NoteProgress(now);
  if (stop_requested_) stop_since_ = now;  // the next step gets its full time too
  SendPending(now, out);
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

void Coordinator::SendPending(Instant now, Outbox* out) {
  if (!pending_ || !pending_backoff_.Due(now)) return;
  bool sent = false;
  for (const ShardState& shard : shards_) {
    const auto* commit = pending_->As<Commit>();
    const auto* redo = pending_->As<Redo>();
    const bool answered = commit != nullptr ? shard.committed && *shard.committed >= commit->step
                                            : HasPrepared(shard, redo->step, redo->attempt);
    if (answered || shard.peer.value == 0) continue;
    out->Send(shard.peer, *pending_);
    sent = true;
  }
  if (sent) pending_backoff_.Sent(now);
}

// Whether every shard has published the version that step_ begins with.
bool Coordinator::AllCommitted() const {
  return std::all_of(shards_.begin(), shards_.end(), [&](const ShardState& shard) {
    return step_.value == job_.journal.recover().snapshot.version.value ||
           (shard.committed && shard.committed->value + 1 == step_.value);
  });
}

// The last step is on every shard: the job is done.
void Coordinator::FinishWhenCommitted(Outbox* out) {
  if (!AllCommitted()) return;
  job_.state.On(JobEvent::kLastStepPublished);
  last_snapshot_failed_ = false;
  ++view_sequence_;
  SendViews(out);
}

void Coordinator::Record(StepRecord record, Instant now) {
  record.seconds = ToSeconds(now - last_commit_);
  last_commit_ = now;
  if (step_seconds_.size() < kStepsMeasured) step_seconds_.resize(step_seconds_.size() + 1);
  step_seconds_[next_step_second_++ % kStepsMeasured] = record.seconds;
  job_.metrics->step.Set(static_cast<double>(record.step.value));
  job_.metrics->samples.Add(record.samples);
  job_.metrics->step_seconds.Observe(record.seconds);
  job_.metrics->loss.Set(record.loss);
  job_.metrics->learning_rate.Set(record.learning_rate);
  job_.metrics->gradient_norm.Set(record.gradient_norm);
  if (record.validation_loss) job_.metrics->validation_loss.Set(*record.validation_loss);
  records_.push_back(std::move(record));
}

std::vector<StepRecord> Coordinator::TakeRecords() { return std::exchange(records_, {}); }

// ---- modes without global steps ------------------------------------------------------------------------------------

void Coordinator::On(PeerId from, const Progress& progress, Instant now, Outbox* out) {
  if (job_.state.now() != State::kRunning || !IsShard(from, progress.shard) ||
      progress.generation != job_.journal.generation())
    return;
  if (progress.incarnation != job_.journal.running()->incarnations[progress.shard]) return;
  if (progress.clocks.size() != job_.slot_count) return;
  const auto is_foreign = [&](const Progress::Entry& entry) { return entry.report.slot >= job_.slot_count; };
  if (std::any_of(progress.reports.begin(), progress.reports.end(), is_foreign)) return;
  ShardState& shard = shards_[progress.shard];
  shard.last_heard = now;
  const auto slowest = std::min_element(progress.clocks.begin(), progress.clocks.end());
  clocks_.Set(progress.shard, *slowest);
  const bool all = progress.reports.size() < Progress::kReportsMax;
  const StepReport last = all ? StepReport() : progress.reports.back();
  shard.reports_to = all ? ShardState::kAllReports : std::pair(last.step, last.report.slot);
  for (const Progress::Entry& entry : progress.reports) {
    if (entry.step <= step_) continue;
    async_reports_[entry.step.value].try_emplace(entry.report.slot, entry.report);
  }
  AdvanceClock(now, out);
}

// Whether all reports of `step` have arrived that will ever arrive. All slots have ended the step. A shard sends its
// oldest reports, in order. If a report is not among them although they reach further, the shard has dropped it
// (Shard::KeepReport), and it counts as absent.
bool Coordinator::ReportsAreIn(Step step, const std::map<SlotIndex, SlotReport>& reports) const {
  if (reports.size() == job_.slot_count) return true;
  for (SlotIndex slot = 0; slot < job_.slot_count; ++slot) {
    if (reports.contains(slot)) continue;
    if (shards_[slot % shards_.size()].reports_to < std::pair(step, slot)) return false;
  }
  return true;
}

// step_ is the slowest slot's clock: all slots have step_ pushes in the weights of every shard.
void Coordinator::AdvanceClock(Instant now, Outbox* out) {
  if (stop_requested_) return;
  const std::uint64_t clock = std::min(job_.options.config.job.steps, clocks_.least());
  const Step before = step_;
  while (step_.value < clock) {
    const std::map<SlotIndex, SlotReport>& reports = async_reports_[step_.value + 1];
    if (!ReportsAreIn(step_.Next(), reports)) break;
    StepRecord record;
    record.generation = job_.journal.generation();
    record.step = step_;
    record.learning_rate = static_cast<double>(parameters_.learning_rate);
    record.gradient_norm = std::numeric_limits<double>::quiet_NaN();  // no gradient of all slots exists
    std::vector<SlotReport> all;
    for (const auto& [slot, report] : reports) all.push_back(report);
    AddSlotReports(std::move(all), &record);
    Record(std::move(record), now);
    job_.metrics->steps_applied.Add(1);
    async_reports_.erase(step_.value + 1);
    step_ = step_.Next();
    parameters_ = ParametersOf(job_.options.config, step_, step_.value);
  }
  if (step_ != before) {
    NoteProgress(now);
    for (const ShardState& shard : shards_)
      out->Send(shard.peer, Rates{job_.journal.term(), job_.journal.generation(), step_, parameters_});
  }
  if (parameters_.stop && clock >= step_.value) {
    job_.state.On(JobEvent::kLastStepPublished);
    last_snapshot_failed_ = false;
    ++view_sequence_;
    SendViews(out);
  }
}

// ---- time ----------------------------------------------------------------------------------------------------------

// While this process was paused, it read no messages: no member counts as silent, and the pause is not job time.
void Coordinator::ForgivePause(Instant now) {
  const Instant pause = now - std::exchange(last_tick_, now);
  if (pause < kPauseLeast) return;
  members_.RenewAll(now);
  for (ShardState& shard : shards_) shard.last_heard += pause;
  last_progress_ += pause;
}

void Coordinator::Tick(Instant now, Outbox* out) {
  ForgivePause(now);
  if (now >= next_ping_) {
    next_ping_ = now + (shutting_down_ ? kShutdownEvery : kPingEvery);
    const bool by_slot = !HasGlobalSteps(job_.options.config.mode());
    const bool running = (job_.state.now() == State::kRunning || job_.state.now() == State::kFinished) &&
                         job_.journal.running() && !job_.journal.concluded();
    for (const ShardState& shard : shards_) {
      if (shard.peer.value == 0) continue;
      if (shutting_down_) {
        out->Send(shard.peer, capstan::Shutdown{job_.journal.term(), job_.journal.generation()});
      } else {
        out->Send(shard.peer, Ping{job_.journal.term(), job_.journal.generation()});
        if (by_slot && running)
          out->Send(shard.peer, Rates{job_.journal.term(), job_.journal.generation(), step_, parameters_});
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
  SendPending(now, out);
  BackUpSlowWorkers(now, out);
  PassBarrierWhenComplete(out);  // a missing worker may have left
  CheckDeadlines(now, out);
  const bool waits = job_.state.now() != State::kFinished || AwaitsLastSnapshot();
  job_.metrics->waiting_seconds.Set(waits ? ToSeconds(now - last_progress_) : 0.0);
  job_.metrics->workers[monitoring::MemberState::kAlive].Set(members_.size());
  const auto heard = [&](const ShardState& shard) { return shard.hello && now - shard.last_heard < kShardSilence; };
  const auto seen =
      std::count_if(shards_.begin(), shards_.end(), [](const ShardState& s) { return s.hello.has_value(); });
  const auto alive = std::count_if(shards_.begin(), shards_.end(), heard);
  job_.metrics->shards[monitoring::MemberState::kAlive].Set(alive);
  job_.metrics->shards[monitoring::MemberState::kLost].Set(seen - alive);
}

void Coordinator::Shutdown() {
  shutting_down_ = true;
  next_ping_ = Instant{};
}

}  // namespace capstan::server
