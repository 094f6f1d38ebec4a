#include "server/coordinator/job.h"

#include <algorithm>
#include <utility>

#include "common/config/job/cluster_section.h"
#include "common/config/job/job_section.h"
#include "common/config/job/limits_section.h"
#include "common/config/job/model_section.h"
#include "common/config/job_config.h"
#include "server/coordinator/job_metrics.h"
#include "server/coordinator/mode_parts.h"

namespace capstan::server {

namespace {

JobState OpenJournal(Journal* journal) {
  JobState state;
  if (Status status = journal->Open(); !status.ok()) {
    state.Fail(std::move(status));
  } else if (journal->concluded()) {
    state.On(JobEvent::kFoundConcluded);
  }
  return state;
}

}  // namespace

Job::Job(CoordinatorOptions given, CoordinatorLog* log, std::shared_ptr<monitoring::CoordinatorMetrics> shared_metrics,
         Instant now)
    : options(std::move(given)),
      metrics(std::move(shared_metrics)),
      journal(options, log),
      state(OpenJournal(&journal)),
      shards(options.config.shard_count(), options.config.cluster.shards_per_server),
      facts{options, HashJobConfig(options.config), *metrics, journal, shards},
      snapshots(facts, now),
      steps(MakeSteps(facts)),
      records(metrics, HasGlobalSteps(options.config.mode()), now),
      clock(now),
      group(MakeGroup(options.config)),
      machine_groups(MakeMachineGroups(options.config, journal.term())),
      uploaders{.initial = {}, .keeper = MakeVersionKeeper(options.config)},
      equal_slots(options.config.model.built_in() ? 0 : EqualSlots::kStepsSeen),
      told{.sessions = SessionFeed(shards.size())} {
  CountWanted(options.config, metrics.get());
  metrics->term.Set(static_cast<double>(journal.term().value));
  metrics->generation.Set(static_cast<double>(journal.generation().value));
}

SessionId Job::DrawSession() const {
  return SessionId{std::max<std::uint64_t>(options.draw_secret(), 1)};  // 0 is no session
}

SlotIndex Job::slot_count() const { return options.config.job.slots; }

Instant Job::lease() const { return FromSeconds(options.config.limits.lease); }

bool Job::AwaitsLastSnapshot() const {
  return state.Is(CoordinatorState::kFinished) && !journal.concluded() && !ending.shutting_down && !SnapshotsSettled();
}

bool Job::IsServing() const {
  return (state.Is(CoordinatorState::kRunning) || state.Is(CoordinatorState::kFinished)) && journal.running() &&
         !journal.concluded();
}

}  // namespace capstan::server
