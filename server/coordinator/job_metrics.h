// CountWanted, CountMembers: metrics of what a job file asks for, and of the members that a job has now.
//
// Kind:   functions that write metrics.
#pragma once

#include "common/base/types.h"
#include "common/config/job/forward.h"

namespace capstan::monitoring {
struct CoordinatorMetrics;
}  // namespace capstan::monitoring

namespace capstan::server {

struct Job;

// Sets the metrics that follow from the job file and never change.
void CountWanted(const JobConfig& config, monitoring::CoordinatorMetrics* metrics);
// Sets the metrics that change with time: the job's state, its members, for how long it waits, and how slow its slowest
// worker is.
void CountMembers(const Job& job, Instant now);

}  // namespace capstan::server
