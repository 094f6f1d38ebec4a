// ShardMemory: how much memory a shard needs for a job: two versions of weights and optimizer states (and of 16-bit
// weights), a third one in jobs that write snapshots, the kept gradient sums, a window of staged pushes, and pushes
// that wait for the log.
//
// Kind:   a value.
// Limits: weights that peers have not taken (PayloadsInFlight), and a snapshot that a command asks for in a job
//         without others, need more; they are not counted.
// Why:    a shard refuses a catalog for which the machine has too little memory, and the launcher adds up the shards
//         that share a machine. docs/explanation/design/design.md explains the sum.
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
// has its own worker and all their pushes are here at once, so more slots mean a smaller credit.
std::uint32_t AsyncCredit(const ShardOptions& options, SlotIndex slots);

// Computes the memory of a shard that owns `elements` parameters, in a job with `slots` slots.
ShardMemory CountShardMemory(const ShardOptions& options, std::uint64_t elements, SlotIndex slots);

}  // namespace capstan::server
