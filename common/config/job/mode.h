// Mode: how the workers' steps are synchronised; Acknowledge: when a push is acknowledged.
//
// Kind:   values.
#pragma once

#include <cstdint>

namespace capstan {

// kAllReduce: the workers all-reduce gradients, and each updates its own copy of the weights. The servers have the
// version at which training began or was resumed, and the versions that workers upload to them.
enum class Mode : std::uint8_t { kSync, kAsync, kBounded, kAllReduce };

// Whether all shards prepare each step of this mode and the coordinator commits it.
inline bool HasGlobalSteps(Mode mode) { return mode == Mode::kSync || mode == Mode::kAllReduce; }
// Whether workers run the optimizer. If so, shards do not get every version.
inline bool WorkersUpdate(Mode mode) { return mode == Mode::kAllReduce; }

// When a shard acknowledges a push, in modes without global steps. kReceived: once the push is applied. kDurable: once
// the push is also in the log on disk.
enum class Acknowledge : std::uint8_t { kReceived, kDurable };

}  // namespace capstan
