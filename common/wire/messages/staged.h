// Staged: which nodes of a step a shard has staged.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/types.h"
#include "common/data/reduction_tree.h"

namespace capstan {

struct StagedNode {
  BlockIndex block = 0;
  Node node;
  bool operator==(const StagedNode&) const = default;
};

struct Staged {
  Generation generation;
  Incarnation incarnation;
  ShardIndex shard = 0;
  Step step;
  using Entry = StagedNode;
  std::vector<Entry> nodes;      // nodes that are staged or already applied
  std::vector<SlotIndex> ended;  // slots whose EndSlot is here
  // Modes without global steps, in answers with `full`: by slot, the newest sequence number that is applied to all
  // blocks of this shard and, on the slot's home shard, ended.
  std::vector<SequenceNumber> clocks;
  bool full = false;    // `nodes`, `ended` and `clocks` are complete lists
  bool passed = false;  // the step is over on this shard: nothing is missing
  // With global steps, the shard accepts pushes for its first `credit` blocks in push order. Without them, a session
  // may have `credit` unanswered pushes.
  std::uint32_t credit = 0;
  Step present;                // this shard's current step
  std::uint64_t answers = 0;   // the number of the question that this answers; 0: none
  std::vector<Entry> missing;  // nodes of the query that must be pushed again: neither staged nor in the log's queue
  bool pull_waits = false;     // the peer's pull is parked here until its version exists: it is not lost
};

}  // namespace capstan
