#include "server/coordinator/job_course.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "common/base/utf8.h"
#include "common/config/job/cluster_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/config/job_config.h"
#include "common/wire/messages/group_state.h"
#include "common/wire/messages/hello.h"
#include "common/wire/messages/membership.h"
#include "common/wire/messages/shard_orders.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/job_view.h"
#include "server/coordinator/natural_order.h"
#include "server/coordinator/tell_shards.h"
#include "server/coordinator/worker_care.h"

namespace capstan::server {

namespace {

constexpr Instant kLastSnapshotMax = std::chrono::seconds(60);  // a stop gives the last snapshot at least this long

std::string NameSuspects(const Job& job, const std::vector<SlotIndex>& slots) {
  std::string names;
  for (SlotIndex slot : slots) {
    std::string name = "slot " + std::to_string(slot);
    for (const auto& [joined, worker] : job.members.workers()) {
      for (SlotIndex own : worker.slots) {
        if (own == slot) name += " (worker \"" + worker.name + "\")";
      }
    }
    AddName(&names, name);
  }
  return names.empty() ? "" : ". The loss itself was not finite in " + names;
}

}  // namespace

void JobCourse::Append(LogRecord record) {
  if (Status status = job_->journal.Append(std::move(record)); !status.ok()) job_->state.Fail(std::move(status));
}

void JobCourse::Fail(Status reason, Outbox* out) {
  if (job_->state.now() == CoordinatorState::kFailed) return;
  job_->state.Fail(std::move(reason));
  out->Log(Severity::kError, job_->state.failure().message());
  SendViews(job_, out);
}

Status JobCourse::AdoptCatalog(const Join& join) {
  if (job_->journal.catalog_record()) return {};
  Result<Catalog> catalog = Catalog::Create(join.catalog, job_->options.block_elements);
  if (!catalog.ok()) return catalog.status();
  const CatalogRecord record{join.catalog, join.numeric_class, join.numeric_fingerprint, join.data_fingerprint};
  Append(record);
  return {};
}

// ---- the course ---------------------------------------------------------------------------------------------------

void JobCourse::Advance(Instant now, Outbox* out) {
  if (job_->state.now() == CoordinatorState::kCollecting) LeaveCollecting(now, out);
  if (job_->state.now() == CoordinatorState::kRunning) KeepInitialSource(now, out);
  if (job_->state.now() == CoordinatorState::kRunning && job_->group && job_->group->request()) FormGroup(now, out);
  if (job_->state.now() == CoordinatorState::kResetting) {
    job_->shards.AllHaveBegun() ? EnterRunning(now, out) : SendResets(now, out);
  }
  if (job_->state.now() == CoordinatorState::kRunning) DecideSteps(now, out);
  if (job_->state.now() == CoordinatorState::kRunning && job_->uploaders.keeper) KeepVersion(now, out);
  AdvanceSnapshots(now, out);
}

bool JobCourse::EnoughMembers(Instant now) const {
  if (job_->members.size() >= job_->options.config.cluster.workers) return true;
  return job_->members.size() >= job_->options.config.cluster.min_workers &&
         now - job_->clock.started() >= FromSeconds(job_->options.config.limits.join / 2);
}

void JobCourse::LeaveCollecting(Instant now, Outbox* out) {
  if (!job_->shards.AllHaveOurTerm() || !job_->journal.catalog()) return;
  if (newer_on_shards_) {
    if (job_->steps->AcknowledgesDurably()) LogLost("the rollback was accepted", out);
    StartRecovery(Recovery::kGoBack, now, out);
  } else if (job_->journal.running() && ShardsLiveOn()) {
    ResumeRunning(now, out);
  } else if (job_->journal.has_begun() && !job_->journal.running()) {
    job_->state.On(JobEvent::kFoundGeneration);  // the last coordinator ended before it logged a RunningRecord
  } else if (EnoughMembers(now) || job_->journal.has_begun()) {
    StartRecovery(Recovery::kGoOn, now, out);
  }
}

// Whether every shard still serves the running generation.
bool JobCourse::ShardsLiveOn() const {
  if (job_->journal.AwaitsInitialWeights())
    return false;  // the log does not tell whose weights the shards have, and how many of them
  if (job_->journal.running()->incarnations.size() != job_->shards.size()) return false;
  for (ShardIndex i = 0; i < job_->shards.size(); ++i) {
    const Hello& hello = *job_->shards[i].hello;
    if (!hello.serving || hello.generation != job_->journal.generation() ||
        hello.incarnation != job_->journal.running()->incarnations[i])
      return false;
  }
  return true;
}

// Takes over the running generation of an earlier coordinator.
void JobCourse::ResumeRunning(Instant now, Outbox* out) {
  job_->state.On(JobEvent::kFoundRunning);
  job_->clock.Restart(now);
  job_->records.Begin(now);
  job_->steps->Resume(now, out);
  out->Audit(AuditKind::kStarted,
             "the coordinator was started again, and goes on at step " + std::to_string(job_->steps->step().value));
  // Only the previous coordinator knew the slots, and the ranks in the group.
  if (job_->group) return AskForGroup("another coordinator leads it", false, out);
  DealSlots(job_, out);
  (void)TellShards(job_, TellWhen::kNow, out);
  SendViews(job_, out);
}

void JobCourse::DecideSteps(Instant now, Outbox* out) {
  Steps& steps = *job_->steps;
  if (steps.parameters().stop && steps.AllPublished()) return Finish(out);
  if ((job_->stopping() && steps.parameters().on_shards) || (job_->group && job_->group->request())) return;
  if (job_->uploaders.keeper && job_->uploaders.keeper->AnyLoads(job_->members, job_->journal.generation())) return;
  const Step before = steps.step();
  Steps::Decision decision = steps.Decide(job_->snapshots, job_->stopping(), now, out);
  if (!decision.failure.ok()) {
    if (job_->members.set_aside().MayBeIn(job_->journal.generation(), before)) {
      out->Log(Severity::kWarning, decision.failure.message());
      return GiveUpStep(now, out);
    }
    return Fail({decision.failure.code(), decision.failure.message() + NameSuspects(*job_, decision.suspects)}, out);
  }
  if (decision.snapshot) job_->snapshots.Begin({steps.SnapshotsSince(), *decision.snapshot}, now);
  for (StepRecord& record : decision.records) job_->records.Add(std::move(record), now);
  if (!decision.reports.empty() && steps.step() != before &&
      job_->equal_slots.See(job_->journal.generation(), before, decision.reports, job_->members)) {
    out->Log(Severity::kWarning, job_->equal_slots.text());
  }
  if (steps.step() != before) {
    job_->told.view_sequence +=
        ForgetBackups(&job_->members);  // helpers learn of it in the answer to their next Heartbeat
    job_->clock.Progress(now);
    if (job_->stopping()) job_->ending.stop_since = now;  // the next step gets its full time too
    steps.Announce(now, out);
  }
  if (decision.ended) Finish(out);
}

void JobCourse::GiveUpStep(Instant now, Outbox* out) {
  if (job_->state.now() != CoordinatorState::kRunning) return;
  if (!job_->members.set_aside().GiveUp()) {
    return Fail(Refused("workers contradict each other again and again, and the job went back " +
                        Count(SetAside::kGivenUpMax, "time") +
                        " for it; the log names them: start the job again without those that do not belong to it"),
                out);
  }
  const std::string cause = "step " + std::to_string(job_->steps->step().value) +
                            " may have gradients of a worker that was set aside or has left";
  job_->clock.SetCause(cause);
  out->Log(Severity::kWarning, cause + "; it is done again");
  StartRecovery(Recovery::kGoBack, now, out);
}

// Finishes the job, because the last step is on every shard.
void JobCourse::Finish(Outbox* out) {
  job_->state.On(JobEvent::kLastStepPublished);
  job_->snapshots.Retry();
  SendChangedViews(job_, out);
}

// ---- generations --------------------------------------------------------------------------------------------------

// If the operator has accepted a rollback, every shard must answer with a term that is newer than all shards' terms,
// and the next generation is above all of theirs.
bool JobCourse::Overrules(const Hello& hello, Outbox* out) {
  if (!job_->options.accept_rollback || job_->state.now() != CoordinatorState::kCollecting) return false;
  const Generation seen = std::max(hello.generation, hello.newest_retained.generation);
  if (!newer_on_shards_)
    out->LogAndAudit(Severity::kWarning, AuditKind::kRecovery,
                     "rolling back: the log counts, and what shards know beyond it does not");
  newer_on_shards_ = std::max(newer_on_shards_.value_or(job_->journal.generation()), seen);
  if (hello.term <= job_->journal.term()) return true;
  Append(TermRecord{hello.term.Next()});
  job_->shards.BeginTerm();
  return true;
}

// Begins another generation, because the shard has restarted and lost what it had in memory.
void JobCourse::LoseShard(ShardIndex shard, Instant now, Outbox* out) {
  const std::string cause = job_->shards.NameOf(shard) + " was lost and came back";
  const char* const start = job_->journal.manifests().empty() ? "step 0" : "the newest snapshot";
  job_->clock.SetCause(cause);
  out->LogAndAudit(Severity::kWarning, AuditKind::kLost,
                   cause + (job_->steps->AcknowledgesDurably() ? " with its log"
                                                               : std::string("; every shard goes back to ") + start));
  StartRecovery(Recovery::kGoOn, now, out);
}

// Whether the present timeline must continue, because pushes acknowledged in it are durable.
bool JobCourse::MustGoOn() const {
  if (job_->journal.AwaitsInitialWeights()) return false;  // no push was acknowledged yet
  return job_->steps->AcknowledgesDurably() && job_->journal.running() && job_->journal.recover().timeline.value != 0;
}

// Gives up acknowledged pushes if the operator has accepted that (--accept-rollback), and fails the job otherwise.
void JobCourse::EndTimeline(const std::string& reason, Instant now, Outbox* out) {
  if (job_->options.accept_loss) {
    LogLost(reason, out);
    return StartRecovery(Recovery::kGoBack, now, out);
  }
  Fail(Refused("acknowledged pushes after version " + std::to_string(job_->journal.newest_snapshot().version.value) +
               " would be lost: " + reason + "; put right what is wrong there and --resume, or give them up by " +
               "--resume --accept-rollback"),
       out);
}

void JobCourse::LogLost(const std::string& reason, Outbox* out) const {
  out->LogAndAudit(Severity::kWarning, AuditKind::kRecovery,
                   "acknowledged pushes after version " +
                       std::to_string(job_->journal.newest_snapshot().version.value) + " are lost: " + reason);
}

void JobCourse::StartRecovery(Recovery recovery, Instant now, Outbox* out) {
  const bool regroups = recovery == Recovery::kRegroup, starts = job_->state.now() == CoordinatorState::kCollecting;
  const bool goes_on = regroups || (recovery == Recovery::kGoOn && MustGoOn());
  const std::size_t before = goes_on ? job_->journal.running()->incarnations.size() : 0;  // 0: any count is right
  if (before != 0 && before != job_->shards.size()) {
    return EndTimeline(
        "the logs are of " + Count(before, "shard") + ", and there are " + std::to_string(job_->shards.size()) + " now",
        now, out);
  }
  const bool had_begun =
      job_->state.now() == CoordinatorState::kRunning || job_->state.now() == CoordinatorState::kFinished;
  if (had_begun && !regroups && !setback_ && !job_->journal.AwaitsInitialWeights())
    setback_ = Setback{job_->clock.last_progress(), job_->steps->step()};
  if (job_->state.now() != CoordinatorState::kCollecting)
    regroups ? job_->clock.CountGroup() : job_->clock.CountRecovery();
  if (!regroups && job_->clock.has_time()) job_->clock.Restart(now);
  job_->state.On(JobEvent::kGenerationBegan);
  RecoverRecord record;
  record.generation = std::max(job_->journal.generation(), newer_on_shards_.value_or(Generation{})).Next();
  record.timeline = goes_on ? job_->journal.timeline() : TimelineFrom(record.generation);
  record.parameters = ParametersOf(job_->options.config, Step{0}, 0);
  if (!job_->journal.manifests().empty()) {
    record.snapshot = job_->journal.manifests().back().id;
    record.parameters = job_->journal.manifests().back().parameters;
  }
  // If only the group changes, no shard was lost, so all shards continue to write the pending snapshot.
  if (!regroups) job_->snapshots.Abandon();
  if (regroups) {
    record.parameters = job_->steps->parameters();
  } else if (goes_on) {
    const Step step = job_->steps->StepOfShards(record);
    record.parameters = ParametersOf(job_->options.config, step, step.value);
  } else {
    record.parameters = job_->steps->ParametersFrom(record, job_->snapshots, job_->stopping(), now);
  }
  job_->uploaders.initial.reset();
  Append(record);
  job_->steps->EndGeneration();
  job_->shards.BeginGeneration();
  if (job_->journal.generation().value > 1) job_->metrics->recoveries.Add(1);
  job_->metrics->generation.Set(static_cast<double>(job_->journal.generation().value));
  reset_backoff_.Restart();
  ++job_->told.view_sequence;
  const SnapshotId& from = job_->journal.recover().snapshot;
  const std::string start = from.IsNone() ? "step 0" : "the snapshot of version " + std::to_string(from.version.value);
  if (regroups) return;  // FormGroup logs this itself
  std::string text =
      goes_on ? "every shard goes on where it was; what was lost comes back from " + start + " and the logs"
              : (job_->journal.generation().value == 1 ? "the job starts from " : "every shard starts from ") + start;
  if (starts || job_->journal.generation().value > 1)
    out->Audit(starts ? AuditKind::kStarted : AuditKind::kRecovery,
               "generation " + std::to_string(job_->journal.generation().value) + ": " + text);
  out->Log(Severity::kInfo, std::move(text));
}

// Goes back to the snapshot before the unusable one, in a new generation. If instead a timeline with acknowledged
// pushes cannot continue, the job fails or, with --accept-rollback, begins from its newest snapshot and without those
// pushes.
void JobCourse::FallBack(const std::string& reason, Instant now, Outbox* out) {
  job_->clock.SetCause(reason);
  if (job_->journal.ContinuesTimeline() && job_->group) {  // a shard has lost its state since
    out->LogAndAudit(Severity::kWarning, AuditKind::kRecovery, reason + "; all go back to the newest snapshot");
    return StartRecovery(Recovery::kGoBack, now, out);
  }
  if (job_->journal.ContinuesTimeline()) return EndTimeline(reason, now, out);
  const std::string bad = "the snapshot of version " + std::to_string(job_->journal.recover().snapshot.version.value);
  job_->journal.DropManifestsFrom(job_->journal.recover().snapshot);
  out->Audit(AuditKind::kSnapshotDeleted, bad + ": it cannot be used: " + reason);
  if (job_->journal.manifests().empty()) {
    return Fail(Corrupt(bad + " cannot be used: " + reason +
                        "; there is no older one: bring the missing directory back, or begin a new run"),
                out);
  }
  out->LogAndAudit(Severity::kWarning, AuditKind::kRecovery,
                   bad + " cannot be used: " + reason + "; going back to the one of version " +
                       std::to_string(job_->journal.manifests().back().id.version.value));
  job_->metrics->snapshots_bad.Add(1);
  StartRecovery(Recovery::kGoBack, now, out);
}

Result<std::vector<PartSource>> JobCourse::FindSources() const {
  std::vector<Reset::Source> sources;
  if (job_->journal.recover().snapshot.IsNone()) return sources;
  if (job_->journal.manifests().empty() || job_->journal.manifests().back().id != job_->journal.recover().snapshot) {
    return Corrupt("the coordinator's log has no record of it");
  }
  const std::vector<std::uint64_t>& digests = job_->journal.manifests().back().digests;
  for (ShardIndex part = 0; part < digests.size(); ++part) {
    const SnapshotPart wanted{job_->journal.recover().snapshot, part, digests[part]};
    const auto has = [&](const ShardEntry& shard) { return shard.hello && shard.Has(wanted); };
    const ShardEntry* holder = part < job_->shards.size() && has(job_->shards[part]) ? &job_->shards[part] : nullptr;
    for (ShardIndex i = 0; holder == nullptr && i < job_->shards.size(); ++i) {
      if (has(job_->shards[i])) holder = &job_->shards[i];
    }
    if (holder == nullptr) {
      return Unreachable("no server has shard " + std::to_string(part) + " of its " + std::to_string(digests.size()) +
                         ": a server's snapshots/shard-" + std::to_string(part) + " is missing or damaged");
    }
    sources.push_back({digests[part], holder->hello->endpoint});
  }
  return sources;
}

void JobCourse::SendResets(Instant now, Outbox* out) {
  if (!reset_backoff_.Due(now)) return;
  if (!job_->shards.AllHaveOurTerm()) return;
  const Result<std::vector<Reset::Source>> sources = FindSources();
  if (!sources.ok()) return FallBack(sources.status().message(), now, out);
  reset_backoff_.Sent(now);
  if (fetch_.generation != job_->journal.generation()) {
    fetch_ = {job_->journal.generation(), std::max<std::uint64_t>(job_->options.draw_secret(), 1)};
  }
  for (const ShardEntry& shard : job_->shards) {
    if (shard.has_begun) continue;
    out->Send(shard.peer,
              Reset{job_->journal.term(), job_->journal.generation(), shard.hello->incarnation, job_->journal.job(),
                    job_->journal.recover().snapshot, job_->journal.recover().parameters, job_->slot_count(),
                    job_->journal.catalog_record()->tensors, *sources, job_->journal.recover().timeline, fetch_.key});
  }
}

void JobCourse::EnterRunning(Instant now, Outbox* out) {
  RunningRecord running{job_->journal.generation(), {}};
  for (const ShardEntry& shard : job_->shards) running.incarnations.push_back(shard.hello->incarnation);
  Append(std::move(running));
  if (job_->state.now() == CoordinatorState::kFailed) return;
  job_->state.On(JobEvent::kShardsBegan);
  job_->steps->Begin();
  job_->snapshots.AskAgain();
  job_->records.Begin(now);
  if (job_->clock.has_time()) job_->clock.Restart(now);
  out->Log(Severity::kInfo, "running: " + Count(job_->shards.size(), "shard") + ", " +
                                Count(job_->members.size(), "worker") + ", " + Count(job_->slot_count(), "slot"));
  LogRecovered(now, out);
  if (!job_->journal.manifests().empty()) {
    for (const ShardEntry& shard : job_->shards) out->Send(shard.peer, job_->snapshots.MakeRetainedSnapshots());
  }
  ChooseInitialSource();
  job_->members.ForgetGroups();
  if (job_->group) job_->group->Begin(now);
  DealSlots(job_, out);
  job_->told.sessions.BeginGeneration();
  (void)TellShards(job_, TellWhen::kNow, out);
  SendViews(job_, out);
}

// Logs how long a recovery took, if this coordinator saw it begin.
void JobCourse::LogRecovered(Instant now, Outbox* out) {
  const std::optional<Setback> setback = std::exchange(setback_, std::nullopt);
  if (!setback) return;
  const std::uint64_t again = setback->step > job_->steps->step() ? setback->step.value - job_->steps->step().value : 0;
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.1f", ToSeconds(now - setback->since));
  out->LogAndAudit(Severity::kInfo, AuditKind::kRecovery,
                   std::string("recovered in ") + seconds.data() + " s, " +
                       (again == 0 ? "no step will be done again" : Count(again, "step") + " will be done again"));
}

// ---- initial weights ----------------------------------------------------------------------------------------------

// Chooses the worker that gives the first weights. With ranks it is rank 0, and none until that worker has joined.
// Otherwise it is the present member whose name sorts first, so the order of joining decides nothing.
void JobCourse::ChooseInitialSource() {
  job_->uploaders.initial.reset();
  if (!job_->journal.AwaitsInitialWeights()) return;
  const Worker* first = nullptr;
  for (const auto& [joined, worker] : job_->members.workers()) {
    if (job_->ranks.in_use() ? worker.rank == 1 : first == nullptr || ComesBefore(worker.name, first->name))
      first = &worker;
  }
  if (first != nullptr) job_->uploaders.initial = InitialSource{first->session, first->name};
}

void JobCourse::KeepInitialSource(Instant now, Outbox* out) {
  if (!job_->journal.AwaitsInitialWeights() || job_->stopping()) return;
  if (!job_->uploaders.initial) {
    ChooseInitialSource();
    if (!job_->uploaders.initial) return;
    return SendChangedViews(job_, out);
  }
  if (job_->members.Find(job_->uploaders.initial->session) != nullptr) return;
  out->Log(Severity::kWarning, "\"" + job_->uploaders.initial->name +
                                   "\" is gone before its first weights were kept; what came of " +
                                   "them is forgotten, and the next worker gives its own");
  StartRecovery(Recovery::kGoBack, now, out);
}

// Fails the job, because no older snapshot exists to begin from.
void JobCourse::FailInitialWeights(ShardIndex shard, const std::string& why, Outbox* out) {
  Fail(Refused("the first weights cannot be kept, so the job cannot begin: " + job_->shards.NameOf(shard) + ": " + why +
               "; put right what is wrong with that directory, and begin again"),
       out);
}

// ---- the group of allreduce ---------------------------------------------------------------------------------------

void JobCourse::Reassign(Outbox* out) {
  if (!job_->group || job_->state.now() != CoordinatorState::kRunning) {
    DealSlots(job_, out);
    return SendNewSlots(job_, out);
  }
  if (AllReduceGroup::Changes(job_->members, job_->slot_count())) AskForGroup("its workers are others", false, out);
  SendChangedViews(job_, out);
}

void JobCourse::AskForGroup(std::string reason, bool goes_back, Outbox* out) {
  const std::string text = "the group of generation " + std::to_string(job_->journal.generation().value) +
                           " is given up at step " + std::to_string(job_->steps->step().value) + ": " + reason;
  if (job_->group->Ask(std::move(reason), goes_back)) out->Log(Severity::kWarning, text);
}

// Begins a generation with another group, once a Commit in flight has arrived, so that all shards are at one version.
// Right after this coordinator's start, up to a lease is left for earlier members to come back.
void JobCourse::FormGroup(Instant now, Outbox* out) {
  if (!job_->steps->AllPublished() || job_->steps->parameters().stop || job_->members.size() == 0) return;
  const bool all = job_->members.size() >= job_->options.config.cluster.workers;
  if ((!all && now - job_->clock.started() < job_->lease()) || !job_->group->MayEnd(now)) return;
  const bool back = job_->group->request()->goes_back;
  const bool lacks_weights = job_->journal.AwaitsInitialWeights();
  const Step lost = job_->steps->step();
  const std::string reason = job_->group->request()->reason;
  job_->clock.SetCause(reason);
  // Before version 0 is kept the next founder gives all first weights, so the shards drop those that they have.
  StartRecovery(back || lacks_weights ? Recovery::kGoBack : Recovery::kRegroup, now, out);
  const std::string next = "generation " + std::to_string(job_->journal.generation().value);
  if (!back && lacks_weights) {
    out->Log(Severity::kInfo, next + ": another group, before the first weights were kept; it gives them again");
  } else if (!back) {
    out->Log(Severity::kInfo, next + ": another group; it goes on from step " + std::to_string(lost.value) +
                                  ", the last that all had finished");
  } else {
    out->Log(Severity::kWarning, next + ": step " + std::to_string(lost.value) + " is lost (" + reason +
                                     "); the job goes back to version " +
                                     std::to_string(job_->journal.recover().snapshot.version.value));
  }
}

void JobCourse::NoteGroup(const Worker& worker, Outbox* out) {
  if (job_->state.now() != CoordinatorState::kRunning) return;
  const std::string said = "\"" + worker.name + "\": " + Excerpt(worker.group.text, kLongExcerptBytesMax);
  switch (worker.group.state) {
    case GroupState::kNone: return;
    case GroupState::kOffered:
      if (!AllReduceGroup::IsOffered(job_->members)) return;
      return SendChangedViews(job_, out);
    case GroupState::kFormed: return;
    case GroupState::kBroken: return AskForGroup(said + AllReduceGroup::MissingText(job_->members), false, out);
    case GroupState::kLost: return AskForGroup(said, true, out);
  }
}

// ---- versions of an external job ---------------------------------------------------------------------------------

// Has a worker upload the present version if a snapshot, the end or another worker needs it. A generation begins with a
// version that the shards have.
void JobCourse::KeepVersion(Instant now, Outbox* out) {
  VersionKeeper& keeper = *job_->uploaders.keeper;
  const Generation generation = job_->journal.generation();
  const StepParameters& step = job_->steps->parameters();
  const bool is_here = job_->steps->step().value == job_->journal.recover().snapshot.version.value;
  const bool wanted =
      step.snapshot || step.stop || job_->stopping() || job_->uploaders.keeper->AnyLoads(job_->members, generation);
  if (keeper.Choose(job_->members, generation, wanted && !is_here)) SendChangedViews(job_, out);
  if (is_here) return keeper.ForgetLoss();
  if (!keeper.IsLost(job_->members, generation, now, job_->lease())) return;
  keeper.ForgetLoss();
  const std::string cause = "no worker has version " + std::to_string(job_->steps->step().value) +
                            " any more, for which " + keeper.Loading(job_->members, generation) + " waits";
  job_->clock.SetCause(cause);
  out->LogAndAudit(Severity::kWarning, AuditKind::kLost, cause + "; all go back to the newest snapshot");
  StartRecovery(Recovery::kGoBack, now, out);
}

// ---- snapshots ----------------------------------------------------------------------------------------------------

void JobCourse::AdvanceSnapshots(Instant now, Outbox* out) {
  const bool running = job_->state.now() == CoordinatorState::kRunning;
  const bool ended = job_->IsServing() && !running;
  if (running || ended) {
    const bool first = job_->journal.AwaitsInitialWeights() && !job_->stopping();
    const bool last = (ended || job_->stopping()) && job_->steps->parameters().on_shards && !job_->SnapshotsSettled();
    const bool wanted = last || (!ended && !job_->stopping() && (first || job_->steps->IsPinDue(job_->snapshots, now)));
    const SnapshotId id{job_->steps->SnapshotsSince(), Version{job_->steps->step().value}};
    if (wanted && job_->steps->TakesPins() && !job_->snapshots.pending() && id > job_->snapshots.Settled()) {
      job_->snapshots.BeginAndAsk(id, now);
    }
    job_->snapshots.Tick(now, out);
  }
  if (job_->stopping() && (job_->state.now() == CoordinatorState::kCollecting ||
                           job_->state.now() == CoordinatorState::kResetting || running)) {
    StopWhenSaved(now, out);
  }
}

// Stops the job once the last snapshot exists, or takes too long. Where only the workers have the newest version, a
// stop also waits for the steps that upload one to the shards, even if another group makes them. A job that does not
// run stops at once, unless it is only forming another group.
void JobCourse::StopWhenSaved(Instant now, Outbox* out) {
  const Instant limit =
      std::max({kLastSnapshotMax, job_->records.SlowAfter(job_->options.slow_after), 2 * job_->snapshots.took()});
  const bool late = now - *job_->ending.stop_since >= limit;
  if (late) out->Log(Severity::kWarning, "the last snapshot is not complete after " + WholeSeconds(limit));
  const bool on_shards = job_->steps->parameters().on_shards;
  const bool saved = job_->state.now() == CoordinatorState::kRunning && on_shards && job_->SnapshotsSettled();
  const bool no_workers = job_->members.size() == 0 && now - job_->clock.started() >= job_->lease();
  const bool nobody = !on_shards && (no_workers || !job_->options.config.snapshot.enabled());
  const bool regroups =
      job_->state.now() == CoordinatorState::kResetting && job_->journal.ContinuesTimeline() && job_->group;
  if (late || saved || nobody || (job_->state.now() != CoordinatorState::kRunning && !regroups))
    job_->state.On(JobEvent::kStopped);
}

// Every shard has its part on disk, so the snapshot exists once its manifest is logged.
void JobCourse::CommitSnapshot(Instant now, Outbox* out) {
  ManifestRecord manifest = job_->snapshots.Complete(now);
  manifest.parameters = job_->steps->ParametersOfSnapshot(manifest);
  manifest.parameters.snapshot = manifest.parameters.upload_next = false;
  const bool begins = job_->journal.AwaitsInitialWeights();
  const std::vector<ManifestRecord> before = job_->journal.manifests();
  Append(manifest);
  if (job_->state.failed()) return;
  for (const ManifestRecord& old : before) {
    const bool is_kept = std::any_of(job_->journal.manifests().begin(), job_->journal.manifests().end(),
                                     [&](const ManifestRecord& kept) { return kept.id == old.id; });
    if (is_kept) continue;
    out->Audit(AuditKind::kSnapshotDeleted,
               "the snapshot of version " + std::to_string(old.id.version.value) +
                   ": [snapshot] keep = " + std::to_string(job_->options.config.snapshot.keep) +
                   ", and there is one of version " + std::to_string(manifest.id.version.value));
  }
  if (begins) {  // the job begins now
    job_->clock.Progress(now);
    job_->records.Begin(now);
  }
  out->LogAndAudit(
      Severity::kInfo, AuditKind::kSnapshot,
      "snapshot of version " + std::to_string(manifest.id.version.value) + " (" + BytesText(manifest.bytes) + ")");
  job_->shards.NoteManifest(job_->journal);
  for (const ShardEntry& shard : job_->shards) out->Send(shard.peer, job_->snapshots.MakeRetainedSnapshots());
}

}  // namespace capstan::server
