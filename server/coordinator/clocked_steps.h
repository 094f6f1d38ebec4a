// ClockedSteps: steps of the modes async and bounded, where each slot pushes on its own. The step under way is the
// slowest slot's clock: every slot has that many pushes in the weights of every shard.
//
// Kind:   owned by the Coordinator; a value.
// Limits: a shard reports its oldest steps first, Progress::kReportsMax at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/running_minimum.h"
#include "common/wire/messages/slot_report.h"
#include "server/coordinator/steps.h"

namespace capstan::server {

class ClockedSteps : public Steps {
 public:
  // `durable`: shards acknowledge a push only once it is on disk.
  ClockedSteps(const JobFacts& facts, bool durable);

  void EndGeneration() override;
  void Begin() override;
  void Resume(Instant now, Outbox* out) override;
  void ForgetShard(ShardIndex shard) override;
  bool Take(const Progress& progress) override;
  Decision Decide(const Snapshots& snapshots, bool stopping, Instant now, Outbox* out) override;
  void Announce(Instant now, Outbox* out) override;
  void Repeat(Instant, Outbox*) override {}
  void AddToPing(PeerId shard, Outbox* out) const override;
  // Returns true only for the version that the shards began with, or that all had when this coordinator took over:
  // shards publish no steps in these modes, so no other version is on all of them for certain.
  bool AllPublished() const override;
  bool TakesPins() const override { return true; }
  bool IsPinDue(const Snapshots& snapshots, Instant now) const override;
  bool AcknowledgesDurably() const override { return durable_; }
  // Computes the parameters from the job file, because shards learn of them one after the other, and their reports may
  // differ.
  StepParameters ParametersOfSnapshot(const ManifestRecord& manifest) const override;

 private:
  using ReportsBySlot = std::map<SlotIndex, SlotReport>;
  // How far a shard's reports reach: all that it holds for numbers and slots up to this pair have arrived here.
  using Reach = std::pair<SequenceNumber, SlotIndex>;
  static constexpr Reach kAllReports{SequenceNumber{UINT64_MAX}, SlotIndex{0}};

  // Whether all reports of this number have arrived that will ever arrive.
  bool ReportsAreIn(SequenceNumber number, const ReportsBySlot& reports) const;
  StepRecord MakeRecord(const ReportsBySlot& reports) const;
  StepParameters ParametersAt(Step step) const;

  const bool durable_;
  std::optional<Step> taken_over_;  // the step that all shards had when this coordinator took over
  std::map<SequenceNumber, ReportsBySlot> reports_;
  std::vector<Reach> reaches_;  // by shard
  RunningMinimum clocks_;       // each shard's slowest slot
};

}  // namespace capstan::server
