// RandomOptions: a simulated job and its faults, all derived from one seed.
//
// Kind:   pure functions.
#pragma once

#include <string>

#include "tests/sim/cluster.h"

namespace capstan::sim {

inline constexpr int kNewestEdition = 10;
// Returns a random job. `edition`: which options are random; each edition added some. A seed that was recorded with an
// older edition makes the same job again with that edition.
ClusterOptions RandomOptions(std::uint64_t seed, int edition = kNewestEdition);
// Adds slow and failing appends to the shards' logs, for a job with durable acknowledgements.
void AddLogTroubles(ClusterOptions* options);
// Returns a job of many steps and a tiny model: a snapshot every other step, more workers than slots, limits so low
// that they are reached, and processes that die again and again.
ClusterOptions OldJob(std::uint64_t seed, Mode mode, std::uint64_t steps);
// Has the job's processes read payloads in each other's memory. Such lines neither repeat messages nor reorder them.
void ShareMemory(ClusterOptions* options);
// Returns a job over slow lines with few faults, which may send little more payload than it needs.
ClusterOptions SlowLines(std::uint64_t seed, Mode mode);
// Returns the same job without faults, with one worker and one shard.
ClusterOptions Undisturbed(ClusterOptions options);
// Returns a key of all random options on which the final weights of an undisturbed run depend.
std::string ReferenceKey(const ClusterOptions& options);
// Returns a description of the job in one line.
std::string Describe(const ClusterOptions& options);

}  // namespace capstan::sim
