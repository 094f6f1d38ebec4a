// EndSlot, CoverageQuery: a worker ends a slot at a shard, or asks what the shard holds. Both are answered with Staged.
//
// Kind:   values.
#pragma once

#include <string>

#include "common/messages/slot_report.h"
#include "common/types.h"

namespace capstan {

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
