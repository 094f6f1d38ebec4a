// ExternalPlan: work in mode sync where the optimizer stays in the program: the program gets the mean gradient of each
// step, and makes the next version of it.
//
// Kind:   owned by the Session; part of its core.
// Why:    only the program knows whether it has made a version, so it says so (Took). A program that has version k gets
//         the gradient that makes k + 1. Any other program loads a whole version from the shards: weights, and the
//         arrays with the program's state. A session without slots follows the job, too, so that its program has the
//         weights when slots come.
#pragma once

#include "common/wire/messages/pull.h"
#include "worker/session/sync_plan.h"

namespace capstan::session {

class ExternalPlan final : public SyncPlan {
 public:
  // `arrays`: of a version: the weights, and those with the program's state.
  explicit ExternalPlan(std::uint32_t arrays, Step step = {}) : SyncPlan(step), arrays_(arrays) {}

  Choice Choose(const Situation& situation) override;
  void EnterGeneration(Step step) override { *this = ExternalPlan(arrays_, step); }

  PullKind pull_kind() const override { return loads() ? PullKind::kBlocks : PullKind::kAnnounced; }
  void BeginPull() override { array_ = 0; }
  std::uint32_t pull_array() const override { return loads() ? array_ : kMeanGradient; }
  bool NextArray() override { return loads() && ++array_ < arrays_; }
  bool AnnouncesEarly() const override { return false; }
  bool weights_complete() const override { return SyncPlan::weights_complete() || has_ == step_; }
  bool Wants(const Weights& weights) const override;
  bool Note(const Weights& weights) override;
  bool Note(const Published& published) override;

  VersionSource source() const override;
  bool at_end() const override { return last_ == step_; }
  std::optional<Step> program_version() const override { return has_; }
  bool Took(std::optional<Step> version) override;
  bool MustGive(const View& view, Generation generation) const override;
  WorkReady MakeGiving(Generation generation, std::uint64_t round) const override;
  void Gave() override { given_ = has_; }
  bool follows() const override { return has_ && has_->value + 1 >= step_.value; }

 private:
  // Whether the program needs the whole version of the step, because it has not the one before.
  bool loads() const { return !has_ || has_->Next() != step_; }

  std::uint32_t arrays_;
  std::optional<Step> has_;    // the version that the program has
  std::optional<Step> given_;  // the newest version that the program has given to the shards
  std::uint32_t array_ = 0;    // the array that is being loaded
  std::optional<Step> last_;   // the job's last version, once it is known; its pull may be dropped, and begin again
  bool declined_ = false;      // the program wants no version before it has slots
};

}  // namespace capstan::session
