// EndSlot, CoverageQuery: a worker tells a shard that a slot's step has ended, or asks which nodes the shard has
// staged. The shard answers either with Staged.
//
// Kind:   values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/messages/staged.h"

namespace capstan {

struct EndSlot {
  Generation generation;
  Incarnation incarnation;
  SessionId session;
  Step step;
  SlotReport report;
  std::string program_state;  // sync: the program's state after the step; empty: this slot brings none
};

// Asks what the shard has staged of `step`. With `question` 0 the answer lists everything (Staged{full = true}). With
// another number the answer says which of `nodes` the shard has. A sender's messages arrive in order, so nodes that the
// answer reports as missing were lost.
struct CoverageQuery {
  Generation generation;
  Incarnation incarnation;
  SessionId session;
  Step step;
  std::uint64_t question = 0;
  std::vector<StagedNode> nodes = {};  // nodes of `step` that the sender pushed and that are not acknowledged
};

}  // namespace capstan
