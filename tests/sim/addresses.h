// Addresses of the processes of a simulated cluster.
#pragma once

#include <cstdint>

namespace capstan::sim {

// Addresses: kCoordinator; kReader of the reader that follows the job; kStranger of a process that is no part of it; kShards + i of shard i; kWorkers + n of the n-th
// worker that was started, counted from 1. The coordinator sees the connections of shards instead of their addresses:
// kShardLines + n of the n-th shard that was started, so a shard that is started again has another connection.
inline constexpr std::uint64_t kCoordinator = 1, kReader = 2, kStranger = 3, kShards = 100, kWorkers = 1000;
inline constexpr std::uint64_t kShardLines = std::uint64_t{1} << 40;
inline constexpr std::uint32_t kShardsMax = 4;

inline bool IsShardAddress(std::uint64_t node) { return node >= kShards && node < kWorkers; }

}  // namespace capstan::sim
