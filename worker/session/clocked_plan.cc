#include "worker/session/clocked_plan.h"

#include <algorithm>

namespace capstan::session {

WorkPlan::Choice ClockedPlan::Choose(const Situation& situation) {
  if (situation.old_pushes) return {};
  std::erase_if(clocks_, [&](const auto& entry) { return !Has(situation.slots, entry.first); });
  Choice choice;
  std::optional<SlotIndex> slowest;
  for (SlotIndex slot : situation.slots) {
    const auto clock = clocks_.find(slot);
    if (clock == clocks_.end()) {
      choice.next = Next::kAskCoverage;
      return choice;
    }
    if (clock->second < last_ && (!slowest || clock->second < clocks_[*slowest])) slowest = slot;
  }
  if (!slowest) return choice;
  step_ = StepOf(clocks_[*slowest]);
  choice.next = Next::kCompute;
  choice.slots = {*slowest};
  return choice;
}

void ClockedPlan::FinishCoverage(const std::vector<SlotIndex>& slots, std::size_t) {
  for (const auto& [slot, clock] : coverage_.clocks()) {
    if (Has(slots, slot)) clocks_.try_emplace(slot, clock);
  }
}

bool ClockedPlan::EndSlot(SlotIndex slot) {
  clocks_[slot] = SequenceOf(PushStep());
  return true;
}

bool ClockedPlan::Note(const Weights& weights) {
  loss_scale_ = weights.loss_scale;
  return false;
}

}  // namespace capstan::session
