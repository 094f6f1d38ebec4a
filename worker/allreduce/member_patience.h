// SilenceMax, DevicePatience, kMeetMax, ShareMax: how long members of a group of workers wait for each other.
//
// Kind: pure functions.
#pragma once

#include <chrono>
#include <cstdint>

#include "common/config/job/forward.h"

namespace capstan::train {

// How long a member may be silent before it counts as lost. Three leases, because its answer may queue behind chunks
// that are in flight.
std::chrono::milliseconds SilenceMax(const JobConfig& config);

// How long to wait for a bucket that all members have enqueued on their devices: one lease, plus the bucket's transfer
// time on a slow link.
std::chrono::milliseconds DevicePatience(const JobConfig& config);

// How long to wait until all members have offered an address and are connected.
inline constexpr std::chrono::seconds kMeetMax(15);

// How long a version of so many bytes may take to reach all members of the group.
std::chrono::seconds ShareMax(std::uint64_t bytes);

}  // namespace capstan::train
