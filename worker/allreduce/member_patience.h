// SilenceMax, DevicePatience: how long members of a group of workers wait for each other, from the job file's limits.
//
// Kind: pure functions.
#pragma once

#include <chrono>

#include "common/config/job/forward.h"

namespace capstan::train {

// After this time a member that does not answer counts as lost. Three leases, because an answer queues behind chunks in
// flight.
std::chrono::milliseconds SilenceMax(const JobConfig& config);

// How long to wait for a bucket that all members have enqueued on their devices. One lease, plus the transfer time on a
// slow link.
std::chrono::milliseconds DevicePatience(const JobConfig& config);

}  // namespace capstan::train
