#include "server/coordinator/job.h"

#include <utility>

#include "common/config/job/job_section.h"

namespace capstan::server {

Job::Job(CoordinatorOptions given, CoordinatorLog* log, std::shared_ptr<monitoring::CoordinatorMetrics> shared_metrics)
    : options(std::move(given)),
      metrics(std::move(shared_metrics)),
      slot_count(options.config.job.slots),
      journal(options, log) {}

}  // namespace capstan::server
