// Addresses of the processes of a simulated cluster.
#pragma once

#include <cstdint>

namespace capstan::sim {

// Addresses: kCoordinator; kReader of the reader that follows the job; kStranger of a process that knows all but the
// secrets of the job; kIntruder of one that knows the sessions of workers, too; kShards + i of shard i; kWorkers + n of
// the n-th worker that was started, counted from 1.
inline constexpr std::uint64_t kCoordinator = 1, kReader = 2, kStranger = 3, kIntruder = 4, kShards = 100,
                               kWorkers = 1000;
inline constexpr std::uint32_t kShardsMax = 4;

inline bool IsShardAddress(std::uint64_t node) { return node >= kShards && node < kWorkers; }

}  // namespace capstan::sim
