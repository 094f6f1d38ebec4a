// Job: the parts of a coordinator, each with its own state. A function that only reads takes all of them as one value.
//
// Kind:   owned by the Coordinator.
#pragma once

#include <memory>

#include "monitoring/metrics.h"
#include "server/coordinator/coordinator_options.h"
#include "server/coordinator/job_state.h"
#include "server/coordinator/journal.h"

namespace capstan::server {

struct Job {
  Job(CoordinatorOptions given, CoordinatorLog* log, std::shared_ptr<monitoring::CoordinatorMetrics> shared_metrics);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  const CoordinatorOptions options;
  const std::shared_ptr<monitoring::CoordinatorMetrics> metrics;
  const SlotIndex slot_count;
  Journal journal;
  JobState state;
};

}  // namespace capstan::server
