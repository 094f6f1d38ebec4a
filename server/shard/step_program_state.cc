#include "server/shard/step_program_state.h"

#include <algorithm>

#include "common/wire/messages/end_slot.h"
#include "common/wire/messages/limits.h"

namespace capstan::server {

namespace {

std::string Where(const EndSlot& end) {
  return "step " + std::to_string(end.step.value) + ": slot " + std::to_string(end.report.slot) + " ends with ";
}

}  // namespace

Status StepProgramState::Check(const EndSlot& end) {
  if (end.program_state.size() <= kProgramStateBytesMax) return {};
  return Invalid(Where(end) + "a program state of " + std::to_string(end.program_state.size()) + " bytes; at most " +
                 std::to_string(kProgramStateBytesMax) + " are kept");
}

Status StepProgramState::Compare(const EndSlot& end) const {
  const std::string& state = end.program_state;
  if (state.empty() || state_.empty() || state == state_) return {};
  return Invalid(Where(end) + "another program state (" + std::to_string(state.size()) + " bytes) than slot " +
                 std::to_string(slot_) + " (" + std::to_string(state_.size()) +
                 " bytes); every worker is to make it from the state that it was handed and the step alone");
}

void StepProgramState::Take(const EndSlot& end) {
  if (end.program_state.empty()) return;
  slot_ = state_.empty() ? end.report.slot : std::min(slot_, end.report.slot);
  if (state_.empty()) session_ = end.session;
  state_ = end.program_state;
}

}  // namespace capstan::server
