#include "server/shard/step_program_state.h"

#include <algorithm>

#include "common/wire/messages/limits.h"

namespace capstan::server {

Status StepProgramState::Check(Step step, SlotIndex slot, const std::string& state) const {
  const std::string where = "step " + std::to_string(step.value) + ": slot " + std::to_string(slot) + " ends with ";
  if (state.size() > kProgramStateBytesMax) {
    return Invalid(where + "a program state of " + std::to_string(state.size()) + " bytes; at most " +
                   std::to_string(kProgramStateBytesMax) + " are kept");
  }
  if (state.empty() || state_.empty() || state == state_) return {};
  return Invalid(where + "another program state (" + std::to_string(state.size()) + " bytes) than slot " +
                 std::to_string(slot_) + " (" + std::to_string(state_.size()) +
                 " bytes); every worker is to make it from the state that it was handed and the step alone");
}

void StepProgramState::Take(SlotIndex slot, const std::string& state) {
  if (state.empty()) return;
  slot_ = state_.empty() ? slot : std::min(slot_, slot);
  state_ = state;
}

}  // namespace capstan::server
