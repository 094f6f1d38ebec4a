// ShardMemory: the most memory that a shard needs for a job: two versions of weights and state (and of encoded
// weights), the retained sum, and a window of staged payloads.
//
// Kind:   a value.
// Why:    docs/design/design.md has the account. A shard refuses a catalog that needs more. The launcher adds the
//         accounts of all shards that it starts on one machine.
#pragma once

#include <cstdint>
#include <string>

#include "server/shard/shard_options.h"

namespace capstan::server {

struct ShardMemory {
  std::uint64_t elements = 0, bytes_per_element = 0;
  std::uint64_t window = 0;
  std::uint64_t log = 0;  // pushes that wait for the log or are being appended

  std::uint64_t bytes() const { return elements * bytes_per_element + window + log; }
  std::string ToString() const;
};

// Returns how many pushes of one worker may be unanswered, in modes without global steps. In the worst case every slot
// has its own worker and the pushes of all are here at once, so more slots mean a smaller credit.
std::uint32_t AsyncCredit(const ShardOptions& options, SlotIndex slots);

// Computes the account of a shard that owns `elements` parameters, in a job with `slots` slots.
ShardMemory CountShardMemory(const ShardOptions& options, std::uint64_t elements, SlotIndex slots);

}  // namespace capstan::server
