// Job: the parts of a coordinator, each with its own state. A function that only reads takes all of them as one value.
//
// Kind:   owned by the Coordinator. Parts refer to each other through JobFacts, so a Job is never moved.
#pragma once

#include <memory>

#include "monitoring/metrics.h"
#include "server/coordinator/coordinator_options.h"
#include "server/coordinator/job_facts.h"
#include "server/coordinator/job_state.h"
#include "server/coordinator/journal.h"
#include "server/coordinator/shard_table.h"
#include "server/coordinator/snapshots.h"
#include "server/coordinator/step_records.h"
#include "server/coordinator/steps.h"

namespace capstan::server {

struct Job {
  Job(CoordinatorOptions given, CoordinatorLog* log, std::shared_ptr<monitoring::CoordinatorMetrics> shared_metrics,
      Instant now);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Whether a generation runs whose weights are still wanted.
  bool IsServing() const;

  const CoordinatorOptions options;
  const std::shared_ptr<monitoring::CoordinatorMetrics> metrics;
  const SlotIndex slot_count;
  Journal journal;
  JobState state;
  ShardTable shards;
  const JobFacts facts;
  Snapshots snapshots;
  const std::unique_ptr<Steps> steps;
  StepRecords records;
};

}  // namespace capstan::server
