// ShardMemory: what a shard holds at most of a job: two versions of weights and state (and of weights as they travel), the
// kept sum, and a window of staged payloads.
//
// Kind:   a value.
// Why:    PROTOCOL.md 6 has the account. A shard refuses a catalog by it, and whoever starts several of them on one
//         machine adds it up before.
#pragma once

#include <cstdint>
#include <string>

#include "server/shard/shard_options.h"

namespace capstan::server {

struct ShardMemory {
  std::uint64_t elements = 0, bytes_per_element = 0;
  std::uint64_t window = 0;
  std::uint64_t log = 0;  // of pushes: gathered, and being appended

  std::uint64_t bytes() const { return elements * bytes_per_element + window + log; }
  std::string ToString() const;
};

// Without global steps: how many pushes of one worker may be unanswered. Every slot may be another worker's, and all of
// these may lie here at once: with many slots each has fewer.
std::uint32_t AsyncCredit(const ShardOptions& options, SlotIndex slots);

// For a shard that owns `elements` parameters, in a job of so many slots.
ShardMemory CountShardMemory(const ShardOptions& options, std::uint64_t elements, SlotIndex slots);

}  // namespace capstan::server
