// How a generation begins: from a snapshot, or, with durable acknowledgements, from where the one before stopped.
#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "common/wire/messages/reset.h"
#include "common/wire/messages/shard_orders.h"
#include "server/coordinator/coordinator.h"
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
  if (before != 0 && before != job_.shards.size()) {
    return EndHistory(
        "the logs are of " + Count(before, "shard") + ", and there are " + std::to_string(job_.shards.size()) + " now",
        now, out);
  }
  const bool had_begun = job_.state.now() == State::kRunning || job_.state.now() == State::kFinished;
  if (had_begun && !regroups && !setback_ && !job_.journal.AwaitsInitialWeights())
    setback_ = Setback{job_.clock.last_progress(), job_.steps->step()};
  if (job_.state.now() != State::kCollecting) regroups ? job_.clock.CountGroup() : job_.clock.CountRecovery();
  if (!regroups && job_.clock.has_time()) job_.clock.Restart(now);
  job_.state.On(JobEvent::kGenerationBegan);
  RecoverRecord record;
  record.generation = std::max(job_.journal.generation(), overruled_.value_or(Generation{})).Next();
  record.history = goes_on ? job_.journal.timeline() : record.generation;
  record.parameters = ParametersOf(job_.options.config, Step{0}, 0);
  if (!job_.journal.manifests().empty()) {
    record.snapshot = job_.journal.manifests().back().id;
    record.parameters = job_.journal.manifests().back().parameters;
  }
  // After a change of the group no shard is lost, and all continue writing their snapshots.
  if (!regroups || job_.journal.AwaitsInitialWeights()) job_.snapshots.Abandon();
  if (regroups) {
    record.parameters = job_.steps->parameters();
  } else if (goes_on) {
    const Step step = job_.steps->StepOfShards(record);
    record.parameters = ParametersOf(job_.options.config, step, step.value);
  } else {
    record.parameters = job_.steps->ParametersFrom(record, job_.snapshots, job_.stopping(), now);
  }
  job_.initial_source.reset();
  Append(record);
  job_.steps->EndGeneration();
  job_.shards.BeginGeneration();
  if (job_.journal.generation().value > 1) job_.metrics->recoveries.Add(1);
  job_.metrics->generation.Set(static_cast<double>(job_.journal.generation().value));
  reset_backoff_.Restart();
  ++job_.view_sequence;
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
  const std::uint64_t again = setback->step > job_.steps->step() ? setback->step.value - job_.steps->step().value : 0;
  std::array<char, 32> seconds{};
  std::snprintf(seconds.data(), seconds.size(), "%.1f", ToSeconds(now - setback->since));
  out->Say(Severity::kInfo,
           std::string("recovered in ") + seconds.data() + " s, " +
               (again == 0 ? "no step will be done again" : Count(again, "step") + " will be done again"));
}

// The snapshot that job_.journal.generation() begins with is unusable: goes back to the one before it, in a new generation. If
// the timeline itself cannot continue, the job ends or, with --accept-rollback, begins with that snapshot and
// without the log.
void Coordinator::FallBack(const std::string& reason, Instant now, Outbox* out) {
  job_.clock.SetCause(reason);
  if (job_.journal.ContinuesTimeline() && job_.group) {  // a shard was lost as well
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
    const auto has = [&](const ShardEntry& shard) { return shard.hello && shard.Has(wanted); };
    const ShardEntry* holder = part < job_.shards.size() && has(job_.shards[part]) ? &job_.shards[part] : nullptr;
    for (ShardIndex i = 0; holder == nullptr && i < job_.shards.size(); ++i) {
      if (has(job_.shards[i])) holder = &job_.shards[i];
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
  if (!job_.shards.AllHaveOurTerm()) return;
  const Result<std::vector<Reset::Source>> sources = FindSources();
  if (!sources.ok()) return FallBack(sources.status().message(), now, out);
  reset_backoff_.Sent(now);
  for (const ShardEntry& shard : job_.shards) {
    if (shard.has_begun) continue;
    out->Send(shard.peer,
              Reset{job_.journal.term(), job_.journal.generation(), shard.hello->incarnation, job_.journal.job(),
                    job_.journal.recover().snapshot, job_.journal.recover().parameters, job_.slot_count(),
                    job_.journal.catalog_record()->tensors, *sources, job_.journal.recover().history});
  }
}

void Coordinator::EnterRunning(Instant now, Outbox* out) {
  RunningRecord running{job_.journal.generation(), {}};
  for (const ShardEntry& shard : job_.shards) running.incarnations.push_back(shard.hello->incarnation);
  Append(std::move(running));
  if (job_.state.now() == State::kFailed) return;
  job_.state.On(JobEvent::kShardsBegan);
  job_.steps->Begin();
  job_.snapshots.AskAgain();
  job_.records.Begin(now);
  if (job_.clock.has_time()) job_.clock.Restart(now);
  out->Say(Severity::kInfo, "running: " + Count(job_.shards.size(), "shard") + ", " +
                                Count(job_.members.size(), "worker") + ", " + Count(job_.slot_count(), "slot"));
  SayRecovered(now, out);
  if (!job_.journal.manifests().empty()) {
    for (const ShardEntry& shard : job_.shards) out->Send(shard.peer, job_.snapshots.MakeSnapshotsKept());
  }
  ChooseFounder();
  job_.members.ForgetGroups();
  if (job_.group) job_.group->Begin(now);
  DealSlots(out);
  SendViews(out);
}

}  // namespace capstan::server
