// Messages of a worker that gives something to a shard, and the shard's answers.
//
// Kind:   values.
#pragma once

#include <capstan/hyper_parameters.h>

#include <cstdint>
#include <string>
#include <vector>

#include "common/messages/slot_report.h"
#include "common/reduction_tree.h"
#include "common/types.h"

namespace capstan {

// Payload: the block's gradient. A leaf carries the slot's mean gradient, a node above it the sum of its leaves'
// values. samples = 0: no payload, the node contributes nothing.
struct Push {
  Generation generation;
  Incarnation incarnation;  // of the shard it was meant for
  SessionId session;
  Step step;  // async: sequence number of the slot, 1 for its first push
  Node node;
  BlockIndex block = 0;
  std::uint64_t samples = 0;
  std::uint64_t payload_hash = 0;       // XXH3-64
  Encoding encoding = Encoding::kFp32;  // the job's own for leaves, kFp32 for sums and for statistics
  std::vector<HyperParameters> hyper;   // of every group, where the worker owns them; else empty
  float loss_scale = 1.0F;              // of the payload; sync: the step's, else the slot's own
};

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

struct EndSlot {
  Generation generation;
  Incarnation incarnation;
  SessionId session;
  Step step;
  SlotReport report;
  std::string program_state;  // after the step; sync. Empty: this slot has none
};

struct CoverageQuery {  // what is held of `step`? answered with Staged{full = true}
  Generation generation;
  Incarnation incarnation;
  SessionId session;
  Step step;
};

}  // namespace capstan
