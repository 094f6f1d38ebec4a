// SilenceMax, DevicePatience, kMeetMax, ShareMax: how long members of a group of workers wait for each other.
//
// Kind: pure functions.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/config/job/forward.h"

namespace capstan::train {

// After this time a member that does not answer counts as lost. Three leases, because an answer queues behind chunks in
// flight.
std::chrono::milliseconds SilenceMax(const JobConfig& config);

// How long to wait for a bucket that all members have enqueued on their devices. One lease, plus the transfer time on a
// slow link.
std::chrono::milliseconds DevicePatience(const JobConfig& config);

// How long to wait until all members have offered an address and are connected.
inline constexpr std::chrono::seconds kMeetMax(15);

// How long a version of so many bytes may take to reach all members.
std::chrono::seconds ShareMax(std::uint64_t bytes);

}  // namespace capstan::train
