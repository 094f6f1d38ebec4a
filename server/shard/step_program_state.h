// StepProgramState: the program's state from the EndSlots of one step.
//
// Kind:   owned by the Shard.
// Limits: kProgramStateBytesMax.
// Fails:  kInvalid: a longer state, or one that differs from the step's first; the message names both slots.
// Why:    the next step must begin with one state on all workers. Which slot brings it, and in which order slots end,
//         must make no difference. Different states in one step mean that workers disagree.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan::server {

class StepProgramState {
 public:
  // Checks the state from the EndSlot of `slot`; empty: none.
  Status Check(Step step, SlotIndex slot, const std::string& state) const;
  // Takes the state of a slot that has ended for the first time. Requires that Check returned ok.
  void Take(SlotIndex slot, const std::string& state);
  // The step's state; empty if no EndSlot brought one.
  const std::string& state() const { return state_; }
  // The lowest slot that brought the state.
  SlotIndex slot() const { return slot_; }

 private:
  std::string state_;
  SlotIndex slot_ = 0;
};

}  // namespace capstan::server
