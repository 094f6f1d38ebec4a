// ClockedStep: the step engine of modes async and bounded. It applies pushes one by one, in order for each slot, and
// counts how far each slot is.
//
// Kind:   owned by the Shard.
// Limits: reports_max slot reports wait for the coordinator, or those of one step if they are more. An EndSlot may be
//         at most kEarlyEndsMax sequence numbers ahead of the slot's pushes that all blocks here have.
// Why:    a slot's clock is the least of its sequence numbers over all blocks. The coordinator counts steps by the
//         clocks. In mode bounded, pulls wait for the slowest slot's clock.
//
// Without a journal a push is applied on arrival. With a journal (durable acknowledgements) a push is applied once it
// is in the log on disk, so the clocks and weights that leave this shard contain only pushes that are on disk.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "common/base/backoff.h"
#include "common/base/running_minimum.h"
#include "common/wire/messages/slot_report.h"
#include "server/shard/step_engine.h"
#include "server/storage/push_log.h"

namespace capstan {
struct Progress;
}  // namespace capstan

namespace capstan::server {

class ClockedStep final : public StepEngine {
 public:
  static constexpr std::uint64_t kEarlyEndsMax = 2;

  using StepEngine::Describe;
  using StepEngine::Handle;

  ClockedStep(const ShardContext& shard, ServedStep* served, Acknowledgements* acknowledgements, PushJournal* journal);

  void Reset() override;
  void Load(const std::vector<const SnapshotHeader::BlockEntry*>& blocks,
            const std::vector<SnapshotHeader>& headers) override;
  void Describe(SnapshotHeader* header) const override;
  void Restart() override;

  bool TakesLent(const Push& push) const override;
  std::optional<std::size_t> Handle(PeerId from, const Push& push, const Slice& payload, Instant now,
                                    Outbox* out) override;
  void Handle(PeerId from, const EndSlot& end, Instant now, Outbox* out) override;
  bool Handle(PeerId from, const CoverageQuery& query, Outbox* out) override;
  bool Holds(std::size_t index, Step step, Node node) const override;
  void Acknowledge(Outbox* out) override;

  void Apply(const LogQueue::Appended& logged) override;
  Status Replay(const PushLogRecord& record) override;

  void Handle(const ClockUpdate& update) override;
  void Tick(Instant now, Outbox* out) override;
  Instant tick_every() const override { return kProgressEvery; }

  PullAdmission Admit(const Pull& pull) const override;
  bool PullsMayBeReady() const override { return changed_; }
  BlockVersion VersionOf(std::size_t index, std::uint32_t array) const override;
  bool CanPin(Version) const override { return true; }
  bool publishes() const override { return false; }

  std::uint64_t updates(std::size_t index) const override { return blocks_[index].updates; }
  std::span<const SequenceNumber> sequence_numbers(std::size_t index) const override { return blocks_[index].last; }

 private:
  static constexpr Instant kProgressEvery = std::chrono::milliseconds(20);

  struct BlockProgress {
    std::vector<SequenceNumber> last;  // per slot: the newest sequence number applied
    SequenceNumber newest;             // the greatest of `last`
    std::uint64_t updates = 0;         // pushes that changed the block
  };
  struct LeastOfBlocks {  // for one slot: the least of its newest sequence numbers over all blocks
    SequenceNumber number;
    std::size_t blocks = 0;  // blocks that have exactly this number
  };

  // Applies a push that has just come. Returns false if its payload, which was lent, does not match its hash.
  bool ApplyNew(const Push& push, const Slice& payload);
  // `check`: null, or of a payload that is lent; if it does not pass, returns false and changes nothing.
  bool Apply(const PushRecord& push, CheckedRead* check = nullptr);
  void Apply(const EndRecord& end);
  Status CheckReplay(const PushRecord& push) const;
  PushRecord RecordOf(const Push& push, const Slice& payload) const;
  void KeepReport(SequenceNumber sequence, const SlotReport& report);
  void CountClocks();
  void CountBlocks(SlotIndex slot);
  // Call after a push of this slot was applied to a block. `before`: the newest sequence number of the slot that the
  // block had until then.
  void RaiseClock(SlotIndex slot, SequenceNumber before);
  void SetClock(SlotIndex slot);
  Progress MakeProgress() const;

  const ShardContext& shard_;
  ServedStep* const served_;
  Acknowledgements* const acknowledgements_;
  PushJournal* const journal_;  // null unless acknowledgements are durable

  std::vector<BlockProgress> blocks_;                                   // by index in the store
  std::map<std::pair<SequenceNumber, SlotIndex>, SlotReport> reports_;  // until they are counted
  std::vector<SequenceNumber> ended_;           // per home slot: the newest sequence number that has ended
  std::vector<LeastOfBlocks> least_of_blocks_;  // per slot
  // Per slot: the newest sequence number that is applied to all blocks here and, if the slot's EndSlots come to this
  // shard, has ended.
  RunningMinimum clocks_;
  bool changed_ = false;  // there is progress to report
  Instant next_progress_{};
  Backoff backoff_;
};

}  // namespace capstan::server
