// Shard: applies pushes to its blocks and answers pulls from them.
//
// Kind:   owned by ShardLoop's thread; a pure core: it has no clock, socket or disk.
// Limits: kWaitingPullsMax parked pulls, one per peer. kAheadMax speculative blocks in flight to each peer. Pushes
//         beyond the credit window are not staged. log_bytes_max and log_records_max bound the pushes that wait for the
//         log; reports_max bounds the reports that wait to be counted.
// Fails:  answers Error: kStale (another generation or incarnation), kBusy (a newer step, or no room), kInvalid,
//         kCorrupt. CHECKs only on our own bugs.
// Why:    one owner per block makes updates lock-free, and makes a shard's behaviour a function of its messages.
//
// Life:   It sends Hello until a coordinator answers. Reset gives the catalog and the version to begin with; the shard
//         loads that version and then serves it. In each step, Push and EndSlot come in, Prepared goes out, and Commit
//         publishes. The loop calls Flush() after a batch of messages. Other threads execute what TakeDiskWork() and
//         TakeLogWork() return, each in order. Without global steps a push is applied on arrival. With durable
//         acknowledgements it is applied once it is in the log, so all that this object reports of clocks and weights
//         is on disk.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/backoff.h"
#include "common/base/running_minimum.h"
#include "common/data/catalog.h"
#include "common/wire/actor.h"
#include "common/wire/messages/slot_report.h"
#include "common/wire/messages/snapshot_id.h"
#include "common/wire/messages/step_parameters.h"
#include "monitoring/metrics.h"
#include "server/shard/acknowledgements.h"
#include "server/shard/block_store.h"
#include "server/shard/durable_identity.h"
#include "server/shard/initial_weights_gate.h"
#include "server/shard/push_journal.h"
#include "server/shard/shard_context.h"
#include "server/shard/shard_options.h"
#include "server/shard/snapshot_keeper.h"
#include "server/shard/staged_block.h"
#include "server/shard/step_hyper_parameters.h"
#include "server/shard/step_program_state.h"
#include "server/storage/push_log.h"
#include "server/storage/shard_disk.h"

namespace capstan {
struct Assign;
struct Commit;
struct CoverageQuery;
struct EndSlot;
struct Hello;
struct Pin;
struct Ping;
struct Prepared;
struct Progress;
struct Pull;
struct Push;
struct Rates;
struct Redo;
struct Reset;
struct Shutdown;
struct SnapshotsKept;
struct StagedNode;
}  // namespace capstan

namespace capstan::server {

class SnapshotLoad;

class Shard {
 public:
  static constexpr std::size_t kWaitingPullsMax = 4096;
  static constexpr std::size_t kPullBlocksMax = 4096;
  static constexpr std::uint64_t kRoundsAheadMax = 2;  // EndSlots may be so many steps ahead of their pushes
  static constexpr std::size_t kAheadMax = 2;          // speculative blocks in flight to one worker
  static constexpr std::size_t kAheadNamedMax = 64;    // blocks that one pull may name as wanted early

  Shard(ShardOptions options, std::shared_ptr<monitoring::ShardMetrics> metrics);
  ~Shard();

  void Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  // Sends the acknowledgements gathered since the last call: one message per peer and batch.
  void Flush(Instant now, Outbox* out);
  // Repeats what has not been answered. Call at least every 100 ms.
  void Tick(Instant now, Outbox* out);
  // Work for the disk thread, in this order, and the result of one piece of work.
  std::vector<DiskWork> TakeDiskWork() { return std::exchange(work_, {}); }
  void Handle(DiskResult result, Instant now, Outbox* out);
  // The same for the log, with durable acknowledgements. Flush() must follow Handle().
  std::vector<LogWork> TakeLogWork() { return journal_ ? journal_->TakeWork() : std::vector<LogWork>{}; }
  void Handle(LogResult result, Instant now, Outbox* out);

  bool serving() const { return context_.store != nullptr && load_ == nullptr; }
  bool loading() const { return load_ != nullptr; }
  bool shut_down() const { return shut_down_; }
  // Why the coordinator refuses this shard; ok while it has not.
  const Status& refusal() const { return refusal_; }
  Generation generation() const { return context_.generation; }
  // The generation in which the served timeline began; it contains all pushes acknowledged durably since then.
  Generation history() const { return context_.timeline; }
  // Log records that the served weights contain.
  std::uint64_t logged_records() const { return journal_ ? journal_->applied_records() : 0; }
  Version version() const { return context_.served.version; }
  Term term() const { return context_.term; }
  // Null: what is served contains no commit.
  const Commit* last_commit() const { return context_.served.last_commit.get(); }
  std::uint32_t attempt() const { return attempt_; }
  bool prepared() const { return prepared_; }
  std::uint64_t hash_mismatches() const { return hash_mismatches_; }
  // Hash of weights and optimizer state. Requires serving().
  std::uint64_t Digest() const { return context_.store->Digest(); }
  // Without global steps: how many pushes have changed this local block.
  std::uint64_t updates(std::size_t local) const { return progress_[local].updates; }
  // Per slot, the newest sequence number applied to this local block.
  const std::vector<std::uint64_t>& sequence_numbers(std::size_t local) const { return progress_[local].last; }
  // Whether this push of the present generation waits for the log or is being appended.
  bool IsBeingLogged(const Push& push) const;
  // Requires serving().
  const BlockStore& store() const { return *context_.store; }
  // Whether version 0 still lacks weights from a worker, or is not yet in a snapshot.
  bool awaits_first_weights() const { return !gate_.is_open(); }
  // Bytes of received payloads and of their sums that are not yet in a prepared version.
  std::uint64_t staged_bytes() const;

 private:
  struct BlockProgress {
    StagedBlock staged;
    bool prepared = false;
    std::vector<std::uint64_t> last;  // async: newest sequence number applied, per slot
    std::uint64_t newest = 0;         // async: the greatest of `last`
    std::uint64_t updates = 0;        // async: pushes applied to this block
  };
  struct ParkedPull;  // parked_pull.h
  struct AnsweredPull {
    SessionId session;
    std::vector<BlockIndex> blocks;
  };

  void HandleCoordinator(const Message& message, Instant now, Outbox* out);
  void HandleWorker(PeerId from, const Message& message, Instant now, Outbox* out);

  void On(const Ping& ping, Outbox* out);
  void On(const Reset& reset, Instant now, Outbox* out);
  Status Install(const Reset& reset, Instant now, Outbox* out);
  void SendResetDone(Outbox* out);
  // Whether this Reset leaves blocks and weights as they are and begins only another generation.
  bool GoesOn(const Reset& reset) const;
  void GoOn(const Reset& reset);
  std::unique_ptr<SnapshotLoad> MakeLoad(const Reset& reset, const std::vector<BlockIndex>& mine) const;
  // Once loading has ended: serves what was loaded, or reports why it cannot.
  void FinishReset(Instant now, Outbox* out);
  void FailReset(const std::string& reason, Outbox* out);
  void TakeLoaded(const SnapshotLoad& load);
  void On(const Pin& pin, Instant now, Outbox* out);
  void On(const SnapshotsKept& kept, Instant now, Outbox* out);
  void PinSnapshot(SnapshotId id, Instant now, Outbox* out);
  SnapshotImage MakeImage(SnapshotId id) const;
  Status CheckMemory(std::uint64_t elements, SlotIndex slots, Outbox* out) const;
  void ForgetProgress();
  void On(const Commit& commit, Instant now, Outbox* out);
  void On(const Redo& redo, Instant now, Outbox* out);
  void On(const Rates& rates);
  void On(const Shutdown& shutdown);

  void On(PeerId from, const Push& push, const Slice& payload, Instant now, Outbox* out);
  void On(PeerId from, const EndSlot& end, Instant now, Outbox* out);
  void On(PeerId from, const CoverageQuery& query, Outbox* out);
  void Answer(PeerId from, const CoverageQuery& query);
  bool Holds(std::size_t local, Step of, Node node) const;
  void On(PeerId from, const Pull& pull, Instant now, Outbox* out);
  void On(PeerId from, const Assign& assign, const Slice& payload, Instant now, Outbox* out);

  void OnMade(PeerId from, const Assign& assign, const Slice& payload, Instant now, Outbox* out);
  Status CheckMade(const Assign& assign, const Slice& payload) const;
  void PinInitialWeights(Instant now, Outbox* out);

  // Whether a worker's message belongs to this incarnation and generation; if not, answers it.
  bool CheckLife(PeerId from, Generation generation, Incarnation incarnation, Outbox* out);
  Status CheckPush(const Push& push, const Slice& payload) const;
  void StagePush(PeerId from, const Push& push, const Slice& payload, Instant now, Outbox* out);
  void ApplyPush(const PushRecord& push);
  void ApplyEnd(const EndRecord& end);
  void KeepReport(Step step, const SlotReport& report);
  PushRecord RecordOf(const Push& push, const Slice& payload) const;
  void EndAsync(PeerId from, const EndSlot& end, Outbox* out);

  // With durable acknowledgements.
  Status ReplayRecord(const PushLogRecord& record);
  Status CheckReplay(const PushRecord& push) const;
  void On(const LogAppended& result, Instant now, Outbox* out);
  void On(LogRead result, Instant now, Outbox* out);

  void PrepareBlock(std::size_t local);
  TrustSquares TrustSquaresOf(std::size_t local);
  void MoveWindow();
  bool BlocksComplete() const;
  void PrepareStepWhenComplete(Instant now, Outbox* out);
  void Publish(const Commit& commit, Instant now, Outbox* out);
  void BeginStep();
  void NoteHeld();
  void AnswerPull(PeerId peer, const Pull& pull, Outbox* out);
  void AnswerWaiting(const ParkedPull& parked, Outbox* out);
  void AnswerLate(PeerId peer, const Pull& pull, Outbox* out);
  void SendPublished(PeerId peer, Outbox* out) const;
  // Sends speculative blocks to the peers whose parked pulls wait for them.
  void SendAhead(Outbox* out);
  void SendAhead(ParkedPull* parked, Outbox* out);
  void SendTentative(PeerId peer, const Pull& pull, std::size_t local, Outbox* out);
  bool MayBePublished() const;
  void TakeBackAhead();
  void StopAhead(PeerId peer);
  void AnswerParkedPulls(Instant now, Outbox* out);
  // The version that pulls are compared with: the published one, or the clock of the slowest slot.
  Version PullableVersion() const;
  Hello MakeHello() const;
  Prepared MakePrepared() const;
  Progress MakeProgress() const;
  // Without global steps. Per slot: the newest sequence number applied to all blocks here and, for home slots, ended.
  const std::vector<std::uint64_t>& SlotClocks() const { return slot_clocks_.values(); }
  void CountBlocks(SlotIndex slot);
  void CountClocks();
  // Call after a push of this slot was applied to a block; `before` is the block's sequence number before it.
  void RaiseClock(SlotIndex slot, std::uint64_t before);
  void SetClock(SlotIndex slot);
  std::uint32_t credit() const;
  UpdateScalars Scalars(std::uint64_t updates, std::uint64_t samples) const {
    return Scalars(updates, samples, context_.served.parameters.loss_scale);
  }
  UpdateScalars Scalars(std::uint64_t updates, std::uint64_t samples, float loss_scale) const;
  // For the step under way.
  std::vector<GroupRule> Rules() const {
    return MakeGroupRules(context_.options.optimizer, context_.served.parameters.learning_rate,
                          hyper_parameters_.groups());
  }

  ShardContext context_;
  Acknowledgements acknowledgements_;

  DurableIdentity identity_;
  SnapshotKeeper snapshots_;
  InitialWeightsGate gate_;
  std::optional<PushJournal> journal_;  // with durable acknowledgements
  std::vector<DiskWork> work_;
  std::unique_ptr<SnapshotLoad> load_;  // between Reset and serving
  bool going_on_ = false;               // the Reset under way keeps what is served
  bool loaded_ = false;  // for the Reset under way: the blocks are here, perhaps not yet the log's pushes
  std::vector<BlockProgress> progress_;     // by local block
  std::vector<std::size_t> segment_start_;  // by local block: its first entry in squares_
  StepHyperParameters hyper_parameters_;    // for the step under way
  std::size_t lowest_incomplete_ = 0;       // push order is that of the backward pass: last local block first

  std::uint32_t attempt_ = 0;
  float clip_ = 1.0F;
  std::vector<float> trust_ratios_;  // for attempt_, by tensor; empty: all 1
  bool prepared_ = false;
  std::vector<double> squares_;
  std::vector<double> weight_squares_, direction_squares_;  // as squares_; empty if the optimizer has no trust ratio
  std::map<SlotIndex, SlotReport> next_reports_;            // sync: for the next step
  std::map<SlotIndex, SlotReport> reports_;                 // sync: for this step
  StepProgramState program_state_, next_program_state_;     // sync: came with reports_ and next_reports_
  std::map<std::pair<std::uint64_t, SlotIndex>, SlotReport> async_reports_;  // async: by (step, slot), until counted
  std::vector<std::uint64_t> ended_;  // async: per home slot, the newest sequence number that has ended
  struct LeastOfBlocks {              // for one slot: the least of its newest sequence numbers over all blocks
    std::uint64_t number = 0;
    std::size_t blocks = 0;  // blocks that have exactly this number
  };
  std::vector<LeastOfBlocks> least_of_blocks_;  // async: per slot
  RunningMinimum slot_clocks_;                  // async: the values of SlotClocks()

  std::map<PeerId, ParkedPull> parked_;      // one per peer
  std::vector<bool> welcome_;                // by local block: a pull parked since parked_ was empty names it
  std::map<PeerId, AnsweredPull> answered_;  // parked pulls answered for this version: the blocks they got
  std::uint64_t hash_mismatches_ = 0;
  bool progress_changed_ = false;
  bool shut_down_ = false;
  Status refusal_;
  Backoff hello_backoff_, prepared_backoff_;
  Instant next_progress_{};
  Instant last_coordinator_{};  // when the last message of the coordinator arrived
};

}  // namespace capstan::server
