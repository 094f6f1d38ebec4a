// SyncStep: the step engine of mode sync. It gathers the pushes of all slots, prepares the next version, and publishes
// that version when the coordinator commits the step.
//
// Kind:   owned by the Shard.
// Limits: pushes of blocks beyond the credit, in push order, are not staged.
// Why:    an attempt computes the same bits whenever it is repeated, so a Commit names what to publish by step and
//         attempt.
//
// Life:   pushes and EndSlots come in, in any order. When all blocks are prepared and all home slots have ended,
//         Prepared goes out. A Redo prepares the blocks again with other factors. A Commit publishes or drops them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/backoff.h"
#include "common/wire/messages/prepared.h"
#include "common/wire/messages/slot_report.h"
#include "server/shard/segment_squares.h"
#include "server/shard/staged_block.h"
#include "server/shard/step_clipping.h"
#include "server/shard/step_engine.h"
#include "server/shard/step_hyper_parameters.h"
#include "server/shard/step_program_state.h"

namespace capstan::server {

class SyncStep : public StepEngine {
 public:
  using StepEngine::Describe;
  using StepEngine::Handle;

  SyncStep(const ShardContext& shard, ServedStep* served, Acknowledgements* acknowledgements);

  void Reset() override;
  void Describe(Hello* hello) const override;
  void Restart() override;

  bool TakesLent(const Push& push) const override;
  std::optional<std::size_t> Handle(PeerId from, const Push& push, const Slice& payload, Instant now,
                                    Outbox* out) override;
  void Handle(PeerId from, const EndSlot& end, Instant now, Outbox* out) override;
  bool Handle(PeerId from, const CoverageQuery& query, Outbox* out) override;
  bool Holds(std::size_t index, Step step, Node node) const override;
  void Acknowledge(Outbox* out) override;

  CommitOutcome Handle(const Commit& commit) override;
  RedoOutcome Handle(const Redo& redo, Instant now, Outbox* out) override;
  void ReportWhenComplete(Instant now, Outbox* out) override;
  void Tick(Instant now, Outbox* out) override;
  Instant tick_every() const override { return std::chrono::milliseconds(100); }

  PullAdmission Admit(const Pull& pull) const override;
  BlockVersion VersionOf(std::size_t index, std::uint32_t array) const override;
  bool CanPin(Version version) const override { return version <= served_->version; }
  bool publishes() const override { return true; }
  std::optional<Speculation> speculation() const override;
  bool IsPrepared(std::size_t index) const override;

  bool prepared() const override { return prepared_; }
  std::uint32_t attempt() const override { return attempt_.number; }
  std::uint64_t hash_mismatches() const override { return hash_mismatches_; }
  std::uint64_t staged_bytes() const override;

 protected:
  // ReplicatedStep (mode allreduce) overrides these three functions, ExternalStep the first.
  virtual bool AreBlocksComplete() const { return complete_blocks_ == blocks_.size(); }
  virtual void PublishBlocks(StepAction action);
  virtual void AddSamples(std::vector<std::uint64_t>* samples) const;

  const ShardContext& shard() const { return shard_; }
  ServedStep* served() { return served_; }
  Acknowledgements* acknowledgements() { return acknowledgements_; }
  bool is_prepared(std::size_t index) const { return blocks_[index].prepared; }
  // Notes that the block's next version is prepared, and offers workers the credit that follows.
  void MarkPrepared(std::size_t index);

 private:
  struct Contributions {  // what the step has for one block
    StagedBlock staged;
    bool prepared = false;
  };
  struct Attempt {
    std::uint32_t number = 0;
    float clip = 1.0F;
    std::vector<float> trust_ratios;  // by tensor; empty: all 1
    float clip_value = 0.0F;          // 0: no limit
  };
  struct Reports {  // reports of the slots that have ended
    std::map<SlotIndex, SlotReport> slots;
    StepProgramState program_state;
    StepClipping clipping;
  };

  bool Stage(PeerId from, const Push& push, const Slice& payload, std::size_t index, Outbox* out);
  bool TakeReport(PeerId from, const EndSlot& end, const Status& same, Reports* reports, Outbox* out);
  void Disagree(SessionId first, SessionId second, Step step, const std::string& what, Outbox* out);
  // Prepares a block from all its slots. Returns false if an input did not pass its check.
  bool Prepare(std::size_t index, std::span<const StagedInput> inputs);
  // The same with a payload that is lent, and completes the block.
  bool PrepareWith(const Push& push, const Slice& lent, std::size_t index);
  void BeginStep();
  void Publish(const Commit& commit);
  void SendPrepared(Instant now, Outbox* out);
  Prepared MakePrepared() const;
  std::uint32_t credit() const;
  UpdateScalars Scalars(std::uint64_t samples) const;
  std::vector<GroupRule> Rules() const;

  const ShardContext& shard_;
  ServedStep* const served_;
  Acknowledgements* const acknowledgements_;

  std::vector<Contributions> blocks_;  // by index in the store
  std::size_t complete_blocks_ = 0;    // how many blocks are prepared in push order, without a gap
  StepHyperParameters hyper_parameters_;
  SegmentSquares squares_;
  Reports reports_, next_reports_;  // for this step and for the next one
  Attempt attempt_;
  bool prepared_ = false;
  Backoff backoff_;
  std::uint64_t hash_mismatches_ = 0;                      // since the shard started
  std::set<std::pair<SessionId, SessionId>> disagreeing_;  // whose disagreement in this step was reported
};

}  // namespace capstan::server
