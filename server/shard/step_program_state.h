// StepProgramState: what the program gave with the ends of the slots of one step.
//
// Kind:   owned by the Shard.
// Limits: kProgramStateBytesMax.
// Fails:  kInvalid: longer, or another one than the step's first; it names both slots.
// Why:    the next step is to begin with one state, whoever computes it. Whichever slot says it, and in which order
//         they end, may make no difference: two states of one step are two opinions on what the program does.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan::server {

class StepProgramState {
 public:
  // What came with the end of `slot`; empty: nothing.
  Status Check(Step step, SlotIndex slot, const std::string& state) const;
  // Of a slot that has ended for the first time. Requires that Check is good.
  void Take(SlotIndex slot, const std::string& state);
  // Empty: none came.
  const std::string& state() const { return state_; }
  // The first slot in order that has one.
  SlotIndex slot() const { return slot_; }

 private:
  std::string state_;
  SlotIndex slot_ = 0;
};

}  // namespace capstan::server
