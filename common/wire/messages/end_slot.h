// EndSlot, CoverageQuery: a worker ends a slot at a shard, or asks what the shard holds. Both are answered with Staged.
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
  std::string program_state;  // after the step; sync. Empty: this slot has none
};

// What is held of `step`? Without a question, all of it: answered with Staged{full = true}. With one, what has become of
// what the sender sent before: messages of one sender arrive in order, so what the answer finds missing is lost.
struct CoverageQuery {
  Generation generation;
  Incarnation incarnation;
  SessionId session;
  Step step;
  std::uint64_t question = 0;
  std::vector<StagedNode> nodes = {};  // of `step`, pushed and not acknowledged
};

}  // namespace capstan
