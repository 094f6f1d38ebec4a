// SilenceMax, DevicePatience: how long members of a group of workers wait for each other, by the job file's limits.
//
// Kind: pure functions.
#pragma once

#include <chrono>

#include "common/config/job/forward.h"

namespace capstan::train {

// After which a member that does not answer is lost. Three leases: answers come behind the chunks that are on their way.
std::chrono::milliseconds SilenceMax(const JobConfig& config);

// With a bucket that all members have handed over to their devices. A lease, and what a slow link takes.
std::chrono::milliseconds DevicePatience(const JobConfig& config);

}  // namespace capstan::train
