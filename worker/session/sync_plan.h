// SyncPlan: work in mode sync: all of this session's slots of a step, then those of the next step. ReplicatedPlan: work
// in mode allreduce, where workers keep and update the weights.
//
// Kind:   owned by the Session; part of its core.
#pragma once

#include "worker/session/work_plan.h"

namespace capstan::session {

class SyncPlan : public WorkPlan {
 public:
  explicit SyncPlan(Step step = {}) { step_ = step; }

  Choice Choose(const Situation& situation) override;
  void FinishCoverage(const std::vector<SlotIndex>& slots, std::size_t blocks) override;
  void SlotsChanged() override { coverage_sure_ = false; }
  Pulled ReconsiderPull(bool announced) override;
  void WorkAnnounced() override { before_.reset(); }
  void RoundOver(const std::vector<SlotIndex>& slots) override;
  bool ChoosesAtAcknowledgement() const override { return false; }
  void MoveToStep(Step step) override;
  void EnterGeneration(Step step) override { *this = SyncPlan(step); }
  void StartOver() override;
  bool IsBehind(Step step) const override { return step > step_; }

  Step PushStep() const override { return step_; }
  bool HasNode(BlockIndex block, Node node) const override { return coverage_.HasNode(block, node); }
  bool EndSlot(SlotIndex slot) override;
  bool IsDone(SlotIndex slot) const override { return Has(done_slots_, slot); }
  bool IsCoverage(const Staged& staged) const override { return staged.step == step_; }
  bool RefusalsAreFinal() const override { return true; }

  PullKind pull_kind() const override { return PullKind::kAnnounced; }
  bool weights_complete() const override { return weights_complete_; }
  void PullComplete() override { weights_complete_ = true; }
  bool Wants(const Weights& weights) const override { return weights.version.value == step_.value; }
  std::optional<Step> PassedBy(const Weights& weights) const override;
  bool Note(const Weights& weights) override;
  bool Note(const Published& published) override;

 protected:
  bool coverage_is_sure() const { return coverage_sure_; }
  bool AllDone(const std::vector<SlotIndex>& slots) const;
  std::vector<SlotIndex> Undone(const std::vector<SlotIndex>& slots) const;
  void GoToNextStep();

 private:
  struct Before {  // the step before step_, kept until weights of step_ arrive
    std::vector<SlotIndex> done_slots;
    bool weights_complete = false;
    Made made;
  };

  bool coverage_sure_ = false;         // coverage_ has all that other sessions pushed of our slots in this step
  std::vector<SlotIndex> done_slots_;  // slots of step_ that we computed or that are covered
  bool weights_complete_ = false;
  std::optional<Before> before_;
};

// In allreduce a worker keeps its slots for a whole generation, and pulls no blocks, because it has its own weights.
class ReplicatedPlan final : public SyncPlan {
 public:
  Choice Choose(const Situation& situation) override;
  bool KeepsSlots() const override { return true; }
  PullKind pull_kind() const override { return PullKind::kBare; }
  bool Wants(const Weights&) const override { return false; }
  std::optional<Step> PassedBy(const Weights&) const override { return std::nullopt; }
};

}  // namespace capstan::session
