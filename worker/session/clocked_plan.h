// ClockedPlan: work without global steps (async, bounded). Each slot has its own sequence of pushes, and a round
// computes one slot: the one of this session's slots that has made the fewest pushes.
//
// Kind:   owned by the Session; part of its core.
// Limits: no slot pushes beyond sequence number `last`. A round begins only when all pushes are acknowledged, except
//         those of the round just before.
#pragma once

#include <map>

#include "worker/session/work_plan.h"

namespace capstan::session {

class ClockedPlan final : public WorkPlan {
 public:
  // `last`: the last sequence number of every slot.
  explicit ClockedPlan(SequenceNumber last, Step step = {}) : last_(last) { step_ = step; }

  Choice Choose(const Situation& situation) override;
  void FinishCoverage(const std::vector<SlotIndex>& slots, std::size_t blocks) override;
  void SlotsChanged() override {}
  // Drops the pull. In mode bounded the shard may be parking it until the slowest slot makes progress, and the slowest
  // slot may be among the new ones.
  Pulled ReconsiderPull(bool) override { return Pulled::kVoid; }
  void RoundOver(const std::vector<SlotIndex>&) override {}
  bool ChoosesAtAcknowledgement() const override { return true; }
  void EnterGeneration(Step step) override { *this = ClockedPlan(last_, step); }
  void StartOver() override { clocks_.clear(); }
  bool IsBehind(Step) const override { return false; }

  Step PushStep() const override { return step_.Next(); }
  bool HasNode(BlockIndex, Node) const override { return false; }
  bool EndSlot(SlotIndex slot) override;
  bool IsDone(SlotIndex) const override { return false; }
  bool IsCoverage(const Staged&) const override { return true; }
  bool RefusalsAreFinal() const override { return false; }  // a gap in a slot's sequence is refused, too

  PullKind pull_kind() const override { return PullKind::kBlocks; }
  bool Wants(const Weights& weights) const override {
    return !weights.speculative && weights.asked.value == step_.value;
  }
  std::optional<Step> PassedBy(const Weights&) const override { return std::nullopt; }
  bool Note(const Weights& weights) override;
  bool Note(const Published&) override { return false; }

 private:
  SequenceNumber last_;
  // The newest sequence number of each slot that this session has pushed, or that all shards had applied when it asked.
  std::map<SlotIndex, SequenceNumber> clocks_;
};

}  // namespace capstan::session
