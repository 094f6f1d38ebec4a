// StepProgramState: the training program's state, which the EndSlots of one step bring.
//
// Kind:   owned by the Shard.
// Limits: kProgramStateBytesMax bytes.
// Fails:  kInvalid: a longer state, or one that differs from the step's first; then the message names both slots.
// Why:    the next step must begin with one state on all workers. Which slot brings it, and in which order slots end,
//         must make no difference. Different states in one step mean that workers disagree.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan::server {

class StepProgramState {
 public:
  // Checks the state that the EndSlot of `slot` brings; empty if it brings none.
  Status Check(Step step, SlotIndex slot, const std::string& state) const;
  // Takes the state of a slot's first EndSlot in the step. Requires that Check() returned ok.
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
