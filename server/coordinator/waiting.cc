#include "server/coordinator/waiting.h"

#include <algorithm>

#include "common/config/job/cluster_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/optimizer_section.h"
#include "common/wire/messages/group_state.h"
#include "server/coordinator/coordinator_text.h"
#include "server/coordinator/job.h"
#include "update/optimizer.h"

namespace capstan::server {

namespace {

constexpr double kSlowestLine = 8 << 20;  // bytes per second: the slowest transfer that the job waits for

// Names the shards that a worker cannot reach, as ", gets no answer from server 1 at tcp://10.0.0.7:29601: check ...";
// empty if the worker reaches all.
std::string UnreachableFrom(const Job& job, const Worker& worker) {
  std::string names;
  for (ShardIndex shard : worker.missing) {
    if (shard >= job.shards.size() || !job.shards[shard].hello) continue;
    AddName(&names, job.shards.NameOf(shard) + " at " + job.shards[shard].hello->endpoint);
  }
  return names.empty() ? ""
                       : ", gets no answer from " + names + ": check cluster.advertise and the network between them";
}

// Says what the shards do before they answer a Reset.
const char* ResettingText(const Job& job) {
  if (!job.journal.ContinuesTimeline())
    return job.journal.recover().snapshot.IsNone() ? " (beginning)" : " (loading its snapshot)";
  return job.group ? " (leaving the step under way)" : " (loading its snapshot and its log)";
}

// Returns the text after "waiting for", such as: first weights from "worker-0" (not kept yet by server 1).
std::string WaitingForInitialWeights(const Job& job) {
  if (!job.uploaders.initial && job.ranks.in_use()) return "rank 0, which gives the first weights";
  if (!job.uploaders.initial) return "a worker that gives the first weights (none is left)";
  return "first weights from \"" + job.uploaders.initial->name + "\" (not kept yet by " + job.snapshots.MissingParts() +
         ")";
}

// Whether the job has not begun, or cannot go on because a shard has seen more than the log.
bool IsGathering(const Job& job) {
  return !job.journal.has_begun() || (job.state.now() == CoordinatorState::kCollecting && job.shards.AnyIsBeyondLog());
}

// Returns how long a version may take to arrive. Shards that reset load a part each. In mode allreduce, a worker may
// receive the whole version when a group forms, or upload it to the shards.
double ArrivalSeconds(const Job& job) {
  if (!job.journal.catalog()) return 0.0;
  const int arrays = 1 + KeptStates(MakeOptimizerRule(job.options.config.optimizer));
  const double seconds =
      static_cast<double>(job.journal.catalog()->element_count()) * sizeof(float) * arrays / kSlowestLine;
  if (job.state.now() == CoordinatorState::kResetting) return seconds / static_cast<double>(job.shards.size());
  if (job.state.now() != CoordinatorState::kRunning || !job.group) return 0.0;
  const bool formed = AllReduceGroup::IsFormed(job.members);
  return formed && !job.steps->parameters().upload_next ? 0.0 : seconds;
}

double WaitLimit(const Job& job) {
  if (IsGathering(job)) return job.options.config.limits.join;
  return job.options.config.limits.stall > 0 ? job.options.config.limits.stall + ArrivalSeconds(job) : 0.0;
}

bool MayWait(const Job& job) {
  const bool ended = job.state.now() == CoordinatorState::kFinished || job.state.now() == CoordinatorState::kStopped ||
                     job.state.now() == CoordinatorState::kFailed;
  return job.AwaitsLastSnapshot() || !(ended || job.stopping());
}

// Adds the workers whose programs are to load or to give a version, in a job whose optimizer stays in the programs.
void AddProgramsWithVersions(const Job& job, std::string* who) {
  if (!job.uploaders.keeper) return;
  const VersionKeeper& keeper = *job.uploaders.keeper;
  const std::string loading = keeper.Loading(job.members, job.journal.generation());
  if (!loading.empty()) AddName(who, loading + " (to load a version)");
  for (const auto& [joined, worker] : job.members.workers()) {
    if (keeper.Is(worker.session)) AddName(who, "\"" + worker.name + "\" (to give its version)");
  }
}

}  // namespace

std::string WaitingFor(const Job& job, Instant now) {
  std::string who;
  for (ShardIndex i = 0; i < job.shards.size(); ++i) {
    const ShardEntry& shard = job.shards[i];
    if (!shard.beyond_log.empty()) {
      AddName(&who, shard.beyond_log);
    } else if (!shard.hello) {
      AddName(&who, job.shards.NameOf(i) + " (never seen)");
    } else if (shard.IsSilent(now)) {
      AddName(&who, job.shards.NameOf(i) + " at " + shard.hello->endpoint + " (silent for " +
                        WholeSeconds(now - shard.last_message) + ")");
    }
  }
  for (ShardIndex i = 0; i < job.shards.size() && job.state.now() == CoordinatorState::kResetting; ++i) {
    if (job.shards[i].has_begun || !job.shards[i].hello) continue;
    AddName(&who, job.shards.NameOf(i) + ResettingText(job));
  }
  if (job.AwaitsLastSnapshot()) {
    for (ShardIndex i = 0; i < job.shards.size(); ++i) {
      if (!job.snapshots.HasPart(i)) AddName(&who, job.shards.NameOf(i) + " (writing the last snapshot)");
    }
    return who;
  }
  if (std::string missing = job.ranks.Missing(job.slot_count(), job.members, now); !missing.empty())
    AddName(&who, missing);
  const std::size_t wanted = job.options.config.cluster.workers;
  if (job.state.now() != CoordinatorState::kRunning && job.members.size() < wanted) {
    AddName(&who,
            std::to_string(wanted - job.members.size()) + " of " + std::to_string(wanted) + " workers (not joined)");
  }
  if (job.state.now() == CoordinatorState::kRunning && job.journal.AwaitsInitialWeights()) {
    AddName(&who, WaitingForInitialWeights(job));
  } else if (job.state.now() == CoordinatorState::kRunning) {
    AddProgramsWithVersions(job, &who);
    if (job.members.size() == 0) AddName(&who, "a worker (none is left)");
    for (const auto& [joined, worker] : job.members.workers()) {
      const bool at_work =
          worker.computing || worker.step < job.steps->step() || worker.generation != job.journal.generation();
      const bool forms = job.group && worker.group.state != GroupState::kFormed;
      if (worker.slots.empty() || (!at_work && !forms && worker.missing.empty())) continue;
      AddName(&who, "\"" + worker.name + "\" (" + (forms ? "forming a group, " : "") + "step " +
                        std::to_string(worker.step.value) + ", last heard " + WholeSeconds(now - worker.last_message) +
                        " ago" + UnreachableFrom(job, worker) + ")");
    }
  }
  return who;
}

std::string WaitingLine(const Job& job, Instant now) {
  const Instant waited = now - job.clock.last_progress();
  if (!MayWait(job) || waited < FromSeconds(job.options.config.limits.report)) return "";
  const std::string waiting = WaitingFor(job, now);
  return "waiting " + WholeSeconds(waited) + " for " + (waiting.empty() ? "the shards' answers" : waiting) +
         (WaitLimit(job) > 0 ? "; giving up after " + WholeSeconds(FromSeconds(WaitLimit(job))) : "");
}

Status Overdue(const Job& job, Instant now) {
  const Instant waited = now - job.clock.last_progress();
  if (!MayWait(job) || WaitLimit(job) <= 0 || waited < FromSeconds(WaitLimit(job))) return {};
  const std::string waiting = WaitingFor(job, now);
  const char* const what = IsGathering(job)           ? "the job did not start within "
                           : job.AwaitsLastSnapshot() ? "the last snapshot was not complete after "
                                                      : "no step was committed for ";
  return Timeout(what + WholeSeconds(waited) + "; waited for: " + (waiting.empty() ? "nobody in particular" : waiting) +
                 job.clock.AttemptsText());
}

}  // namespace capstan::server
