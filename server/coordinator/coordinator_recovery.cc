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
  if (AwaitsFirstWeights()) return false;  // nothing was acknowledged
  return AcknowledgesDurably() && running_ && recover_->history.value != 0;
}

// Only the operator can give up acknowledged pushes (--accept-rollback).
void Coordinator::EndHistory(const std::string& reason, Instant now, Outbox* out) {
  if (options_.accept_loss) {
    SayLost(reason, out);
    return StartRecovery(Recovery::kGoBack, now, out);
  }
  Fail(Refused("acknowledged pushes after version " + std::to_string(newest_snapshot().version.value) +
               " would be lost: " + reason + "; put right what is wrong there and --resume, or give them up by " +
               "--resume --accept-rollback"),
       out);
}

void Coordinator::SayLost(const std::string& reason, Outbox* out) const {
  out->Say(Severity::kWarning, "acknowledged pushes after version " + std::to_string(newest_snapshot().version.value) +
                                   " are lost: " + reason);
}

void Coordinator::StartRecovery(Recovery recovery, Instant now, Outbox* out) {
  const bool regroups = recovery == Recovery::kRegroup;
  const bool goes_on = regroups || (recovery == Recovery::kGoOn && MustGoOn());
  const std::size_t before = goes_on ? running_->incarnations.size() : 0;  // 0: not in the log
  if (before != 0 && before != shards_.size()) {
    return EndHistory(
        "the logs are of " + Count(before, "shard") + ", and there are " + std::to_string(shards_.size()) + " now", now,
        out);
  }
  const bool had_begun = state_ == State::kRunning || state_ == State::kFinished;
  if (had_begun && !regroups && !setback_ && !AwaitsFirstWeights()) setback_ = Setback{last_progress_, step_};
  if (state_ != State::kCollecting) attempts_.has_time = (regroups ? attempts_.groups : attempts_.recoveries)++ == 0;
  if (!regroups && attempts_.has_time) last_progress_ = now;
  state_ = State::kResetting;
  generation_ = std::max(generation_, overruled_.value_or(generation_)).Next();
  const Generation history = goes_on ? recover_->history : generation_;
  recover_ = RecoverRecord{generation_, {}, ParametersOf(options_.config, Step{0}, 0), history};
  if (!manifests_.empty()) {
    recover_->snapshot = manifests_.back().id;
    recover_->parameters = manifests_.back().parameters;
  }
  if (regroups) {
    recover_->parameters = parameters_;
  } else if (goes_on) {
    recover_->parameters = ParametersOf(options_.config, StepOfShards(), StepOfShards().value);
  } else if (WorkersUpdate(options_.config.mode())) {
    snapshot_.reset();
    recover_->parameters.keep = KeepDue(Step{recover_->snapshot.version.value}, last_snapshot_, now);
  }
  running_.reset();
  founder_.reset();
  pending_.reset();
  if (!regroups || AwaitsFirstWeights()) snapshot_.reset();  // otherwise no shard is lost, and all continue writing
  async_reports_.clear();
  Append(*recover_);
  for (ShardState& shard : shards_) {
    shard.reset_done = false;
    shard.prepared.reset();
    shard.committed.reset();
  }
  prepared_count_.reset();
  clocks_ = RunningMinimum(std::vector<std::uint64_t>(shards_.size()));
  if (generation_.value > 1) metrics_->recoveries.Add(1);
  metrics_->generation.Set(static_cast<double>(generation_.value));
  reset_backoff_.Restart();
  ++view_sequence_;
  const SnapshotId& from = recover_->snapshot;
  const std::string start = from.IsNone() ? "step 0" : "the snapshot of version " + std::to_string(from.version.value);
  if (regroups) return;  // FormGroupAnew has logged it
  out->Say(Severity::kInfo,
           goes_on ? "every shard goes on where it was; what was lost comes back from " + start + " and the logs"
                   : (generation_.value == 1 ? "the job starts from " : "every shard starts from ") + start);
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
Step Coordinator::StepOfShards() const {
  Step step = std::max(step_, Step{recover_->snapshot.version.value});
  for (const ShardState& shard : shards_) {
    const bool knows = shard.hello && shard.hello->serving && shard.hello->generation >= recover_->history;
    if (knows) step = std::max(step, Step{shard.hello->version.value});
  }
  return step;
}

// The snapshot that generation_ begins with is unusable: goes back to the one before it, in a new generation. If
// the timeline itself cannot continue, the job ends or, with --accept-rollback, begins with that snapshot and
// without the log.
void Coordinator::FallBack(const std::string& reason, Instant now, Outbox* out) {
  attempts_.cause = reason;
  if (GoingOn() && WorkersUpdate(options_.config.mode())) {  // a shard was lost as well
    out->Say(Severity::kWarning, reason + "; all go back to the newest snapshot");
    return StartRecovery(Recovery::kGoBack, now, out);
  }
  if (GoingOn()) return EndHistory(reason, now, out);
  const std::string bad = "the snapshot of version " + std::to_string(recover_->snapshot.version.value);
  while (!manifests_.empty() && manifests_.back().id >= recover_->snapshot) manifests_.pop_back();
  if (manifests_.empty()) {
    return Fail(Corrupt(bad + " cannot be used: " + reason +
                        "; there is no older one: bring the missing directory back, or begin a new run"),
                out);
  }
  out->Say(Severity::kWarning, bad + " cannot be used: " + reason + "; going back to the one of version " +
                                   std::to_string(manifests_.back().id.version.value));
  metrics_->snapshots_bad.Add(1);
  StartRecovery(Recovery::kGoBack, now, out);
}

Result<std::vector<PartSource>> Coordinator::FindSources() const {
  std::vector<Reset::Source> sources;
  if (recover_->snapshot.IsNone()) return sources;
  CAPSTAN_CHECK(!manifests_.empty() && manifests_.back().id == recover_->snapshot);
  const std::vector<std::uint64_t>& digests = manifests_.back().digests;
  for (ShardIndex part = 0; part < digests.size(); ++part) {
    const SnapshotPart wanted{recover_->snapshot, part, digests[part]};
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
              Reset{term_, generation_, shard.hello->incarnation, job_, recover_->snapshot, recover_->parameters,
                    slot_count_, catalog_record_->tensors, *sources, recover_->history});
  }
}

void Coordinator::EnterRunning(Instant now, Outbox* out) {
  RunningRecord running{generation_, {}};
  for (const ShardState& shard : shards_) running.incarnations.push_back(shard.hello->incarnation);
  Append(running);
  if (state_ == State::kFailed) return;
  running_ = std::move(running);
  state_ = State::kRunning;
  step_ = GoingOn() ? StepOfShards() : Step{recover_->snapshot.version.value};
  const bool regrouped = GoingOn() && WorkersUpdate(options_.config.mode());
  parameters_ = GoingOn() && !regrouped ? ParametersOf(options_.config, step_, step_.value) : recover_->parameters;
  if (parameters_.held) held_ = step_;
  for (ShardState& shard : shards_) {
    if (regrouped && step_.value > 0) shard.committed = Step{step_.value - 1};
  }
  attempt_ = 0;
  pin_backoff_.Restart();
  last_commit_ = now;
  if (attempts_.has_time) last_progress_ = now;
  out->Say(Severity::kInfo, "running: " + Count(shards_.size(), "shard") + ", " + Count(members_.size(), "worker") +
                                ", " + Count(slot_count_, "slot"));
  SayRecovered(now, out);
  if (!manifests_.empty()) {
    for (const ShardState& shard : shards_) out->Send(shard.peer, MakeSnapshotsKept());
  }
  ChooseFounder();
  BeginGroup();
  last_group_ = now;
  DealSlots(out);
  SendViews(out);
}

}  // namespace capstan::server
