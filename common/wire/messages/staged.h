// Staged: what a shard holds of a step.
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
  std::vector<Entry> held;            // nodes held (or already applied); cumulative for those named
  std::vector<SlotIndex> ended;       // slots whose EndSlot is held
  std::vector<std::uint64_t> clocks;  // modes without global steps, in answer to a CoverageQuery: per slot, the newest
                                      // sequence number that all blocks of this shard have
  bool full = false;                  // `held`, `ended` and `clocks` are everything there is
  bool passed = false;                // the step is over on this shard: nothing of it is missing
  // With global steps: pushes are welcome for the first `credit` blocks of this shard in push order. Without: so many
  // of a session's pushes may be unanswered.
  std::uint32_t credit = 0;
  Step present;                // this shard's step
  std::uint64_t answers = 0;   // a CoverageQuery's question; 0: none
  std::vector<Entry> missing;  // of the nodes that it named: neither held nor about to be. They are to be pushed again
  bool pull_waits = false;     // a pull of the same peer waits here for its version: nothing of it is lost
};

}  // namespace capstan
