// Addresses of the processes of a simulated cluster.
#pragma once

#include <cstdint>

namespace capstan::sim {

// The coordinator; the reader that follows the job. Shard i is kShards + i; the n-th started worker is kWorkers + n.
inline constexpr std::uint64_t kCoordinator = 1, kReader = 2, kShards = 100, kWorkers = 1000;
inline constexpr std::uint32_t kShardsMax = 4;

inline bool IsShardAddress(std::uint64_t node) { return node >= kShards && node < kWorkers; }

}  // namespace capstan::sim
