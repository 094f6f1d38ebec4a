#include "server/coordinator/job_metrics.h"

#include <algorithm>

#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/snapshot_section.h"
#include "common/config/job_config.h"
#include "monitoring/metrics.h"
#include "server/coordinator/job.h"

namespace capstan::server {

namespace {

using monitoring::Member;
using monitoring::MemberState;

// A worker reports once a second which step it computes, so shorter times are not known.
constexpr double kReportedEvery = 1.0;

// Returns for how many usual steps the slowest worker has computed its present one.
double StragglerRatio(const Job& job, Instant now) {
  if (job.state.now() != CoordinatorState::kRunning) return 0.0;
  Instant longest{};
  for (const auto& [joined, worker] : job.members.workers()) {
    const bool computes = worker.computing && worker.generation == job.journal.generation() && !worker.slots.empty();
    if (computes) longest = std::max(longest, now - worker.pace.since);
  }
  const std::optional<double> usual = job.records.MeanSeconds();
  return usual ? ToSeconds(longest) / std::max(*usual, kReportedEvery) : 0.0;
}

}  // namespace

void CountWanted(const JobConfig& config, monitoring::CoordinatorMetrics* metrics) {
  metrics->steps_wanted.Set(config.job.steps);
  metrics->slots.Set(config.job.slots);
  metrics->members_wanted[Member::kWorker].Set(config.cluster.workers);
  metrics->members_wanted[Member::kShard].Set(config.shard_count());
  if (config.mode() == Mode::kBounded) metrics->staleness_limit_steps.Set(static_cast<double>(config.job.staleness));
  if (config.limits.stall > 0) metrics->stall_limit_seconds.Set(config.limits.stall);
  const SnapshotSection& snapshot = config.snapshot;
  if (snapshot.every_seconds > 0) metrics->snapshot_every_seconds.Set(snapshot.every_seconds);
  if (snapshot.every_steps > 0) metrics->snapshot_every_steps.Set(static_cast<double>(snapshot.every_steps));
}

void CountMembers(const Job& job, Instant now) {
  monitoring::CoordinatorMetrics& metrics = *job.metrics;
  metrics.state.Set(static_cast<double>(job.state.now()));
  const bool waits = job.state.now() != CoordinatorState::kFinished || job.AwaitsLastSnapshot();
  metrics.waiting_seconds.Set(waits ? ToSeconds(now - job.clock.last_progress()) : 0.0);
  metrics.straggler_ratio.Set(StragglerRatio(job, now));
  metrics.workers[MemberState::kAlive].Set(job.members.size());
  const auto seen = std::count_if(job.shards.begin(), job.shards.end(),
                                  [](const ShardEntry& shard) { return shard.hello.has_value(); });
  const auto alive = std::count_if(job.shards.begin(), job.shards.end(),
                                   [&](const ShardEntry& shard) { return shard.hello && !shard.IsSilent(now); });
  metrics.shards[MemberState::kAlive].Set(alive);
  metrics.shards[MemberState::kLost].Set(seen - alive);
}

}  // namespace capstan::server
