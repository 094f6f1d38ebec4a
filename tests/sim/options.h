// RandomOptions: a simulated job and its faults, all derived from one seed.
//
// Kind:   pure functions.
#pragma once

#include <string>

#include "tests/sim/cluster.h"

namespace capstan::sim {

inline constexpr int kNewestEdition = 8;
// `edition`: the set of faults that existed when a seed was recorded; an older edition is replayed
// without later faults.
ClusterOptions RandomOptions(std::uint64_t seed, int edition = kNewestEdition);
// Adds faults of the logs, for a job with durable acknowledgements.
void AddLogTroubles(ClusterOptions* options);
// A job of many steps with few numbers: a snapshot every other step, more workers than slots, limits so low that they
// are reached, and processes that die from the first step to the last.
ClusterOptions OldJob(std::uint64_t seed, Mode mode, std::uint64_t steps);
// A job over slow lines with few faults, which must send little more than it needs.
ClusterOptions SlowLines(std::uint64_t seed, Mode mode);
// The undisturbed run of the same job, with one worker and one shard.
ClusterOptions Undisturbed(ClusterOptions options);
// Everything that the final bits may depend on.
std::string ReferenceKey(const ClusterOptions& options);
// A one-line description.
std::string Describe(const ClusterOptions& options);

}  // namespace capstan::sim
