// ClockedSteps: steps of the modes async and bounded, where each slot pushes on its own. The step under way follows the
// clock of the slowest slot: every slot has at least that many pushes in the weights of every shard.
//
// Kind:   owned by the Coordinator; a value.
// Limits: a shard sends the oldest of its slot reports first, about Progress::kReportsMax at a time.
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
  // Returns true only if the step under way begins with the version of the generation's snapshot, or with one that all
  // shards had when this coordinator took over. Shards publish no steps in these modes, so no other version is certain
  // to be on all of them.
  bool AllPublished() const override;
  bool TakesPins() const override { return true; }
  bool IsPinDue(const Snapshots& snapshots, Instant now) const override;
  bool AcknowledgesDurably() const override { return durable_; }
  // Computes the parameters from the job file. Shards learn new parameters one after the other, so the parameters in
  // their reports may differ.
  StepParameters ParametersOfSnapshot(const ManifestRecord& manifest) const override;

 private:
  using ReportsBySlot = std::map<SlotIndex, SlotReport>;
  // How far a shard's reports reach: every report that the shard holds up to this sequence number and slot has arrived.
  using Reach = std::pair<SequenceNumber, SlotIndex>;
  static constexpr Reach kAllReports{SequenceNumber{UINT64_MAX}, SlotIndex{0}};

  // Whether every slot's report of this sequence number has arrived, or was dropped by its shard.
  bool ReportsAreIn(SequenceNumber number, const ReportsBySlot& reports) const;
  StepRecord MakeRecord(const ReportsBySlot& reports) const;
  StepParameters ParametersAt(Step step) const;

  const bool durable_;
  std::optional<Step> taken_over_;  // the step that all shards had when this coordinator took over
  std::map<SequenceNumber, ReportsBySlot> reports_;
  std::vector<Reach> reaches_;        // by shard
  RunningMinimum clocks_;             // by shard: the clock of its slowest slot
  std::vector<std::uint64_t> skews_;  // by shard: steps from its slowest slot to its fastest
};

}  // namespace capstan::server
