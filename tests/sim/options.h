// RandomOptions: what a simulated job is like and what befalls it, all of it from one seed.
//
// Kind:   pure functions.
#pragma once

#include <string>

#include "tests/sim/cluster.h"

namespace capstan::sim {

inline constexpr int kNewestEdition = 8;
// `edition`: what befell jobs when a seed was written down; an older one is replayed without what came later.
ClusterOptions RandomOptions(std::uint64_t seed, int edition = kNewestEdition);
// What befalls the logs of a job whose acknowledgements are durable.
void AddLogTroubles(ClusterOptions* options);
// A job of many steps with few numbers: a snapshot every other step, more workers than slots, limits so low that they
// bind, and processes that die from the first step to the last.
ClusterOptions OldJob(std::uint64_t seed, Mode mode, std::uint64_t steps);
// A job over slow lines, where hardly anything befalls it, that is to send little more than it needs.
ClusterOptions SlowLines(std::uint64_t seed, Mode mode);
// The undisturbed run of the same job, with one worker and one shard.
ClusterOptions Undisturbed(ClusterOptions options);
// What the final bits may depend on.
std::string ReferenceKey(const ClusterOptions& options);
// One line for people.
std::string Describe(const ClusterOptions& options);

}  // namespace capstan::sim
