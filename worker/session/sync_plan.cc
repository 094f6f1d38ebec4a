#include "worker/session/sync_plan.h"

#include <algorithm>
#include <utility>

namespace capstan::session {

WorkPlan::Choice SyncPlan::Choose(const Situation& situation) {
  const std::vector<SlotIndex>& mine = situation.slots;
  Choice choice;
  if (mine.empty()) return choice;
  if (AllDone(mine)) {
    // This session's work of the step is done: go on with the next step.
    choice.done = step_;
    if (!coverage_sure_) choice.dropped = step_;
    GoToNextStep();
  } else if (!coverage_sure_) {
    choice.next = Next::kAskCoverage;
    return choice;
  }
  choice.next = Next::kCompute;
  choice.slots = Undone(mine);
  return choice;
}

bool SyncPlan::AllDone(const std::vector<SlotIndex>& slots) const {
  return std::all_of(slots.begin(), slots.end(), [this](SlotIndex slot) { return IsDone(slot); });
}

std::vector<SlotIndex> SyncPlan::Undone(const std::vector<SlotIndex>& slots) const {
  std::vector<SlotIndex> undone;
  for (SlotIndex slot : slots) {
    if (!IsDone(slot)) undone.push_back(slot);
  }
  return undone;
}

void SyncPlan::GoToNextStep() {
  before_ = Before{std::move(done_slots_), weights_complete_, made_};
  step_ = step_.Next();
  done_slots_.clear();
  coverage_ = {};
  weights_complete_ = false;
  coverage_sure_ = true;
}

// Counts slots as done whose work the shards have already, so they need no work here.
void SyncPlan::FinishCoverage(const std::vector<SlotIndex>& slots, std::size_t blocks) {
  coverage_sure_ = true;
  for (SlotIndex slot : slots) {
    if (!IsDone(slot) && coverage_.HasSlot(slot, blocks)) done_slots_.push_back(slot);
  }
}

// Call when this session's slots changed during a pull. If the application has no work with the pulled weights yet,
// goes back to the step before, in which new slots may still need work.
WorkPlan::Pulled SyncPlan::ReconsiderPull(bool announced) {
  if (announced || !before_) return Pulled::kStays;
  step_ = Step{step_.value - 1};
  done_slots_ = std::move(before_->done_slots);
  weights_complete_ = before_->weights_complete;
  made_ = before_->made;  // external: weights of the later version may have come
  before_.reset();
  return Pulled::kBack;
}

// A slot that is not done was given up, and will be chosen again. Before that, the shards are asked what they have of
// the slot.
void SyncPlan::RoundOver(const std::vector<SlotIndex>& slots) {
  for (SlotIndex slot : slots) {
    if (!IsDone(slot)) coverage_sure_ = false;
  }
}

void SyncPlan::MoveToStep(Step step) {
  before_.reset();
  step_ = step;
  done_slots_.clear();
  weights_complete_ = false;
  coverage_sure_ = false;
}

// While no work of a step is announced, the shards may still lack something of the step before.
void SyncPlan::StartOver() {
  (void)ReconsiderPull(false);
  done_slots_.clear();
  coverage_sure_ = false;
}

bool SyncPlan::EndSlot(SlotIndex slot) {
  if (!IsDone(slot)) done_slots_.push_back(slot);
  return !coverage_.HasEnd(slot);
}

// Published weights show that the step which made their version is over. Speculative weights show nothing.
std::optional<Step> SyncPlan::PassedBy(const Weights& weights) const {
  if (weights.speculative || weights.version.value == 0) return std::nullopt;
  return Step{weights.version.value - 1};
}

bool SyncPlan::Note(const Weights& weights) {
  if (weights.stop) return true;
  loss_scale_ = weights.loss_scale;
  made_ = {weights.updates, weights.gradient_norm};
  return false;
}

bool SyncPlan::Note(const Published& published) {
  if (published.stop) return true;
  loss_scale_ = published.loss_scale;
  made_ = {published.updates, published.gradient_norm};
  terms_ = {published.version,   published.action,        published.made_in,
            published.on_shards, published.learning_rate, published.upload_next};
  return false;
}

// Chooses as in sync, but issues no StepDone event: only the machine reduction needs it, and allreduce has none.
WorkPlan::Choice ReplicatedPlan::Choose(const Situation& situation) {
  Choice choice = SyncPlan::Choose(situation);
  choice.done.reset();
  return choice;
}

}  // namespace capstan::session
