// Mode: how the workers' steps are synchronised; Acknowledge: when a push is acknowledged.
//
// Kind:   values.
#pragma once

#include <cstdint>

namespace capstan {

// kAllReduce: the workers all-reduce gradients, and each updates its own copy of the weights. The servers have only the
// versions that are uploaded.
enum class Mode : std::uint8_t { kSync, kAsync, kBounded, kAllReduce };

// Whether all shards prepare each step of this mode and the coordinator commits it.
inline bool HasGlobalSteps(Mode mode) { return mode == Mode::kSync || mode == Mode::kAllReduce; }
// Whether workers run the optimizer. Shards then have only the blocks of uploaded versions.
inline bool WorkersUpdate(Mode mode) { return mode == Mode::kAllReduce; }

// When a shard acknowledges a push, in modes without global steps: once it is applied, or once it is also on disk.
enum class Acknowledge : std::uint8_t { kReceived, kDurable };

}  // namespace capstan
