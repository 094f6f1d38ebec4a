// Mode: how the steps of a job and of its workers go together; Acknowledge: when a push counts as taken.
//
// Kind:   values.
#pragma once

#include <cstdint>

namespace capstan {

// kAllReduce: the workers add up gradients among themselves and update weights that each of them has; the servers have
// those versions that are kept.
enum class Mode : std::uint8_t { kSync, kAsync, kBounded, kAllReduce };

// Whether steps of this mode are prepared by all shards and committed by the coordinator.
inline bool HasGlobalSteps(Mode mode) { return mode == Mode::kSync || mode == Mode::kAllReduce; }
// Whether workers run the optimizer: then shards have the blocks of kept versions only.
inline bool WorkersUpdate(Mode mode) { return mode == Mode::kAllReduce; }

// When a shard of a mode without global steps says that it has a push: when it is applied, or when it is on disk too.
enum class Acknowledge : std::uint8_t { kReceived, kDurable };

}  // namespace capstan
