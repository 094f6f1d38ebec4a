// Assign, Assigned: a worker gives a shard arrays of blocks, and the answer.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/types.h"

namespace capstan {

// Payload: an array of a block that a worker gives. The first weights, where a block has tensors of kGiven; or, in
// allreduce, all arrays of the version that `step` makes. Answered with Assigned when all arrays of the block are
// there; the first one counts.
struct Assign {
  Generation generation;
  Incarnation incarnation;
  SessionId session;
  BlockIndex block = 0;
  std::uint64_t payload_hash = 0;
  Step step = {};           // 0 for first weights
  std::uint32_t array = 0;  // 0: weights, then the optimizer's states
};

struct Assigned {
  Generation generation;
  Incarnation incarnation;
  ShardIndex shard = 0;
  std::vector<BlockIndex> blocks;  // whose arrays this shard has
  Step step;                       // of the Assigns; of those that are over, all blocks count as given
};

}  // namespace capstan
