// How a generation begins: from a snapshot, or, with durable acknowledgements, from where the one before stopped.
#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_orders.h"
#include "server/coordinator/coordinator.h"
#include "server/coordinator/coordinator_shard.h"
#include "server/coordinator/coordinator_text.h"

namespace capstan::server {

// Whether the present timeline must continue, because pushes acknowledged in it are durable.
bool Coordinator::MustGoOn() const {
  if (job_.journal.AwaitsInitialWeights()) return false;  // nothing was acknowledged
  return AcknowledgesDurably() && job_.journal.running() && job_.journal.recover().history.value != 0;
}

// Only the operator can give up acknowledged pushes (--accept-rollback).
void Coordinator::EndHistory(const std::string& reason, Instant now, Outbox* out) {
  if (job_.options.accept_loss) {
    SayLost(reason, out);
    return StartRecovery(Recovery::kGoBack, now, out);
  }
  Fail(Refused("acknowledged pushes after version " + std::to_string(job_.journal.newest_snapshot().version.value) +
               " would be lost: " + reason + "; put right what is wrong there and --resume, or give them up by " +
               "--resume --accept-rollback"),
       out);
}

void Coordinator::SayLost(const std::string& reason, Outbox* out) const {
  out->Say(Severity::kWarning, "acknowledged pushes after version " +
                                   std::to_string(job_.journal.newest_snapshot().version.value) +
                                   " are lost: " + reason);
}

void Coordinator::StartRecovery(Recovery recovery, Instant now, Outbox* out) {
  const bool regroups = recovery == Recovery::kRegroup;
  const bool goes_on = regroups || (recovery == Recovery::kGoOn && MustGoOn());
  const std::size_t before = goes_on ? job_.journal.running()->incarnations.size() : 0;  // 0: not in the log
  if (before != 0 && before != shards_.size()) {
    return EndHistory(
        "the logs are of " + Count(before, "shard") + ", and there are " + std::to_string(shards_.size()) + " now", now,
        out);
  }
  const bool had_begun = job_.state.now() == State::kRunning || job_.state.now() == State::kFinished;
  if (had_begun && !regroups && !setback_ && !job_.journal.AwaitsInitialWeights())
    setback_ = Setback{last_progress_, step_};
  if (job_.state.now() != State::kCollecting)
    attempts_.has_time = (regroups ? attempts_.groups : attempts_.recoveries)++ == 0;
  if (!regroups && attempts_.has_time) last_progress_ = now;
  job_.state.On(JobEvent::kGenerationBegan);
  RecoverRecord record;
  record.generation = std::max(job_.journal.generation(), overruled_.value_or(Generation{})).Next();
  record.history = goes_on ? job_.journal.timeline() : record.generation;
  record.parameters = ParametersOf(job_.options.config, Step{0}, 0);
  if (!job_.journal.manifests().empty()) {
    record.snapshot = job_.journal.manifests().back().id;
    record.parameters = job_.journal.manifests().back().parameters;
  }
  if (regroups) {
    record.parameters = parameters_;
  } else if (goes_on) {
    const Step step = StepOfShards(record);
    record.parameters = ParametersOf(job_.options.config, step, step.value);
  } else if (WorkersUpdate(job_.options.config.mode())) {
    snapshot_.reset();
    const Version version = record.snapshot.version;
    record.parameters.keep = KeepDue(Step{version.value}, version, last_snapshot_, now);
  }
  founder_.reset();
  pending_.reset();
  if (!regroups || job_.journal.AwaitsInitialWeights())
    snapshot_.reset();  // otherwise no shard is lost, and all continue writing
  async_reports_.clear();
  Append(record);
  for (ShardState& shard : shards_) {
    shard.reset_done = false;
    shard.prepared.reset();
    shard.committed.reset();
  }
  prepared_count_.reset();
  clocks_ = RunningMinimum(std::vector<std::uint64_t>(shards_.size()));
  if (job_.journal.generation().value > 1) job_.metrics->recoveries.Add(1);
  job_.metrics->generation.Set(static_cast<double>(job_.journal.generation().value));
  reset_backoff_.Restart();
  ++view_sequence_;
  const SnapshotId& from = job_.journal.recover().snapshot;
  const std::string start = from.IsNone() ? "step 0" : "the snapshot of version " + std::to_string(from.version.value);
  if (regroups) return;  // FormGroupAnew has logged it
  out->Say(Severity::kInfo,
           goes_on
               ? "every shard goes on where it was; what was lost comes back from " + start + " and the logs"
               : (job_.journal.generation().value == 1 ? "the job starts from " : "every shard starts from ") + start);
}

// Logs how long a recovery within this coordinator's life took.
void Coordinator::SayRecovered(Instant now, Outbox* out) {
  const std::optional<Setback> setback = std::exchange(setback_, std::nullopt);
  if (!setback) return;
  const std::uint64_t again = setback->step > step_ ? setback->step.value - step_.value : 0;
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.1f", ToSeconds(now - setback->since));
  out->Say(Severity::kInfo,
           std::string("recovered in ") + seconds.data() + " s, " +
               (again == 0 ? "no step will be done again" : Count(again, "step") + " will be done again"));
}

// Only a step counts as progress, not a new generation. So a job also ends if it loses shards or workers again and
// again, or if its group can never form.
void Coordinator::NoteProgress(Instant now) {
  last_progress_ = now;
  attempts_ = {};
}

// The step that a continued timeline has reached: the previous coordinator, or surviving shards, may know of steps
// after the snapshot.
Step Coordinator::StepOfShards(const RecoverRecord& record) const {
  Step step = std::max(step_, Step{record.snapshot.version.value});
  for (const ShardState& shard : shards_) {
    const bool knows = shard.hello && shard.hello->serving && shard.hello->generation >= record.history;
    if (knows) step = std::max(step, Step{shard.hello->version.value});
  }
  return step;
}

// The snapshot that job_.journal.generation() begins with is unusable: goes back to the one before it, in a new generation. If
// the timeline itself cannot continue, the job ends or, with --accept-rollback, begins with that snapshot and
// without the log.
void Coordinator::FallBack(const std::string& reason, Instant now, Outbox* out) {
  attempts_.cause = reason;
  if (job_.journal.ContinuesTimeline() && WorkersUpdate(job_.options.config.mode())) {  // a shard was lost as well
    out->Say(Severity::kWarning, reason + "; all go back to the newest snapshot");
    return StartRecovery(Recovery::kGoBack, now, out);
  }
  if (job_.journal.ContinuesTimeline()) return EndHistory(reason, now, out);
  const std::string bad = "the snapshot of version " + std::to_string(job_.journal.recover().snapshot.version.value);
  job_.journal.DropManifestsFrom(job_.journal.recover().snapshot);
  if (job_.journal.manifests().empty()) {
    return Fail(Corrupt(bad + " cannot be used: " + reason +
                        "; there is no older one: bring the missing directory back, or begin a new run"),
                out);
  }
  out->Say(Severity::kWarning, bad + " cannot be used: " + reason + "; going back to the one of version " +
                                   std::to_string(job_.journal.manifests().back().id.version.value));
  job_.metrics->snapshots_bad.Add(1);
  StartRecovery(Recovery::kGoBack, now, out);
}

Result<std::vector<PartSource>> Coordinator::FindSources() const {
  std::vector<Reset::Source> sources;
  if (job_.journal.recover().snapshot.IsNone()) return sources;
  CAPSTAN_CHECK(!job_.journal.manifests().empty() &&
                job_.journal.manifests().back().id == job_.journal.recover().snapshot);
  const std::vector<std::uint64_t>& digests = job_.journal.manifests().back().digests;
  for (ShardIndex part = 0; part < digests.size(); ++part) {
    const SnapshotPart wanted{job_.journal.recover().snapshot, part, digests[part]};
    const auto has = [&](const ShardState& shard) {
      return shard.hello && std::find(shard.parts.begin(), shard.parts.end(), wanted) != shard.parts.end();
    };
    const ShardState* holder = part < shards_.size() && has(shards_[part]) ? &shards_[part] : nullptr;
    for (std::size_t i = 0; holder == nullptr && i < shards_.size(); ++i) {
      if (has(shards_[i])) holder = &shards_[i];
    }
    if (holder == nullptr) {
      return Unreachable("no server has shard " + std::to_string(part) + " of its " + std::to_string(digests.size()) +
                         ": a server's snapshots/shard-" + std::to_string(part) + " is missing or damaged");
    }
    sources.push_back({digests[part], holder->hello->endpoint});
  }
  return sources;
}

void Coordinator::SendResets(Instant now, Outbox* out) {
  if (!reset_backoff_.Due(now)) return;
  if (std::any_of(shards_.begin(), shards_.end(), [](const ShardState& shard) { return !shard.fresh; })) return;
  const Result<std::vector<Reset::Source>> sources = FindSources();
  if (!sources.ok()) return FallBack(sources.status().message(), now, out);
  reset_backoff_.Sent(now);
  for (const ShardState& shard : shards_) {
    if (shard.reset_done) continue;
    out->Send(shard.peer,
              Reset{job_.journal.term(), job_.journal.generation(), shard.hello->incarnation, job_.journal.job(),
                    job_.journal.recover().snapshot, job_.journal.recover().parameters, job_.slot_count,
                    job_.journal.catalog_record()->tensors, *sources, job_.journal.recover().history});
  }
}

void Coordinator::EnterRunning(Instant now, Outbox* out) {
  RunningRecord running{job_.journal.generation(), {}};
  for (const ShardState& shard : shards_) running.incarnations.push_back(shard.hello->incarnation);
  Append(std::move(running));
  if (job_.state.now() == State::kFailed) return;
  job_.state.On(JobEvent::kShardsBegan);
  step_ = job_.journal.ContinuesTimeline() ? StepOfShards(job_.journal.recover())
                                           : Step{job_.journal.recover().snapshot.version.value};
  const bool regrouped = job_.journal.ContinuesTimeline() && WorkersUpdate(job_.options.config.mode());
  parameters_ = job_.journal.ContinuesTimeline() && !regrouped ? ParametersOf(job_.options.config, step_, step_.value)
                                                               : job_.journal.recover().parameters;
  if (parameters_.held) held_ = step_;
  for (ShardState& shard : shards_) {
    if (regrouped && step_.value > 0) shard.committed = Step{step_.value - 1};
  }
  attempt_ = 0;
  pin_backoff_.Restart();
  last_commit_ = now;
  if (attempts_.has_time) last_progress_ = now;
  out->Say(Severity::kInfo, "running: " + Count(shards_.size(), "shard") + ", " + Count(members_.size(), "worker") +
                                ", " + Count(job_.slot_count, "slot"));
  SayRecovered(now, out);
  if (!job_.journal.manifests().empty()) {
    for (const ShardState& shard : shards_) out->Send(shard.peer, MakeSnapshotsKept());
  }
  ChooseFounder();
  BeginGroup();
  last_group_ = now;
  DealSlots(out);
  SendViews(out);
}

}  // namespace capstan::server
