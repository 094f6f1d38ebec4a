#include "worker/session/external_plan.h"

#include "common/wire/messages/pull.h"
#include "common/wire/messages/view.h"
#include "common/wire/messages/weights.h"

namespace capstan::session {

// A round goes with each version, also without slots: the program must make the version.
WorkPlan::Choice ExternalPlan::Choose(const Situation& situation) {
  Choice choice;
  declined_ = declined_ && situation.slots.empty();
  if (declined_ || (has_ == step_ && at_end())) return choice;
  if (has_ == step_ && AllDone(situation.slots)) {
    if (!coverage_is_sure()) choice.dropped = step_;
    GoToNextStep();
  } else if (!coverage_is_sure() && !situation.slots.empty()) {
    choice.next = Next::kAskCoverage;
    return choice;
  }
  choice.next = Next::kCompute;
  choice.slots = Undone(situation.slots);
  return choice;
}

bool ExternalPlan::Wants(const Weights& weights) const {
  return weights.version.value == step_.value && weights.array == pull_array();
}

bool ExternalPlan::Note(const Weights& weights) {
  (void)SyncPlan::Note(weights);
  made_ = {weights.updates, weights.gradient_norm};
  if (weights.stop) last_ = step_;
  if (weights.array == kMeanGradient) terms_.action = weights.skipped ? StepAction::kSkip : StepAction::kApply;
  return false;  // the program must make the last version, too
}

bool ExternalPlan::Note(const Published& published) {
  (void)SyncPlan::Note(published);
  made_ = {published.updates, published.gradient_norm};
  if (published.stop) last_ = step_;
  terms_.action = published.action;
  return false;
}

VersionSource ExternalPlan::source() const {
  if (has_ == step_) return VersionSource::kCurrent;
  if (loads()) return VersionSource::kWhole;
  return terms_.action == StepAction::kSkip ? VersionSource::kSkipped : VersionSource::kGradient;
}

bool ExternalPlan::Took(std::optional<Step> version) {
  const bool before = follows();
  has_ = version;
  declined_ = !version;
  return !before && follows();
}

bool ExternalPlan::MustGive(const View& view, Generation generation) const {
  return view.founder && view.step.value != 0 && view.generation == generation && has_ == view.step &&
         given_ != view.step;
}

WorkReady ExternalPlan::MakeGiving(Generation generation, std::uint64_t round) const {
  RoundWork work;
  work.generation = generation;
  work.step = *has_;
  work.round = round;
  work.updates = made().updates;
  work.source = VersionSource::kCurrent;
  work.keep = true;
  return {std::move(work), loss_scale(), true};
}

}  // namespace capstan::session
