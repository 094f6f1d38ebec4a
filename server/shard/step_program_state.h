// StepProgramState: the training program's state, which the EndSlots of one step bring.
//
// Kind:   owned by the Shard.
// Limits: kProgramStateBytesMax bytes.
// Fails:  Check: kInvalid, a longer state. Compare: kInvalid, a state that differs from the step's first; the message
//         names both slots.
// Why:    the next step must begin with one state on all workers. Which slot brings it, and in which order slots end,
//         must make no difference. Different states in one step mean that workers disagree.
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/base/types.h"

namespace capstan {
struct EndSlot;
}  // namespace capstan

namespace capstan::server {

class StepProgramState {
 public:
  // Checks the state that an EndSlot brings; empty if it brings none.
  static Status Check(const EndSlot& end);
  // Compares the state that the EndSlot brings with the step's.
  Status Compare(const EndSlot& end) const;
  // Takes the state of a slot's first EndSlot in the step. Requires that Check() and Compare() returned ok.
  void Take(const EndSlot& end);
  // The session that brought the step's state; 0 if no EndSlot brought one.
  SessionId session() const { return session_; }
  // The step's state; empty if no EndSlot brought one.
  const std::string& state() const { return state_; }
  // The lowest slot that brought the state.
  SlotIndex slot() const { return slot_; }

 private:
  std::string state_;
  SessionId session_;
  SlotIndex slot_ = 0;
};

}  // namespace capstan::server
