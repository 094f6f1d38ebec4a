// Shard: applies pushes to its blocks and answers pulls from them.
//
// Kind:   owned by ShardLoop's thread; a pure core: no clock, socket or disk of its own.
// Limits: kWaitingPullsMax pulls parked, one per peer; kAheadMax tentative blocks on their way to each.
//         Pushes beyond the credit window are not staged. What waits for its place in the log is bounded by
//         log_bytes_max and log_records_max, what waits to be counted by reports_max.
// Fails:  answers Error: kStale (another generation or incarnation), kBusy (ahead of us, or full), kInvalid, kCorrupt.
//         CHECKs only on our own bugs.
// Why:    one owner per block makes updates lock-free, and everything a shard does a function of the messages it got.
//
// Life:   Hello until a coordinator answers; Reset gives the catalog and the version to begin with, which is loaded and
//         then served; then, per step: Push and EndSlot come in, Prepared goes out, Commit publishes. The last message
//         batch is followed by Flush(), and what TakeDiskWork() and TakeLogWork() give is carried out elsewhere, each
//         in order. Without global steps a push is applied when it comes, or, where acknowledgements are durable, when
//         it is in the log: all that this object says of clocks and weights is then on disk.
#pragma once

#include <atomic>
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
#include "server/shard/block_store.h"
#include "server/shard/first_weights.h"
#include "server/shard/log_queue.h"
#include "server/shard/shard_options.h"
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
struct Fetch;
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
struct SnapshotDone;
struct SnapshotsKept;
struct Staged;
struct StagedNode;
}  // namespace capstan

namespace capstan::server {

class SnapshotLoad;

class Shard {
 public:
  static constexpr std::size_t kWaitingPullsMax = 4096;
  static constexpr std::size_t kPullBlocksMax = 4096;
  static constexpr std::uint64_t kRoundsAheadMax = 2;  // ends of a slot before its pushes
  static constexpr std::size_t kPeerReadsMax = 256;
  static constexpr std::size_t kAheadMax = 2;        // tentative blocks on their way to a worker
  static constexpr std::size_t kAheadNamedMax = 64;  // by a pull

  Shard(ShardOptions options, std::shared_ptr<monitoring::ShardMetrics> metrics);
  ~Shard();

  void Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  // Sends the acknowledgements gathered since the last call: one message per peer and batch.
  void Flush(Instant now, Outbox* out);
  // Repeats what has not been answered. Call at least every 100 ms.
  void Tick(Instant now, Outbox* out);
  // What the disk is to do, in this order, and what came of it.
  std::vector<DiskWork> TakeDiskWork() { return std::exchange(work_, {}); }
  void Handle(DiskResult result, Instant now, Outbox* out);
  // The same of the log, where acknowledgements are durable. Followed by Flush().
  std::vector<LogWork> TakeLogWork() { return std::exchange(log_work_, {}); }
  void Handle(LogResult result, Instant now, Outbox* out);

  bool serving() const { return store_ != nullptr && load_ == nullptr; }
  bool loading() const { return load_ != nullptr; }
  bool shut_down() const { return shut_down_; }
  // Why the coordinator wants none of it; ok while it has not said so.
  const Status& refusal() const { return refusal_; }
  Generation generation() const { return generation_; }
  // The generation in which what is served began; pushes acknowledged durably since then are in it.
  Generation history() const { return history_; }
  // Records of the log that are in what is served.
  std::uint64_t logged_records() const { return next_record_ - 1; }
  Version version() const { return version_; }
  Term term() const { return term_; }
  // Null: none in what is served.
  const Commit* last_commit() const { return last_commit_.get(); }
  std::uint32_t attempt() const { return attempt_; }
  bool prepared() const { return prepared_; }
  std::uint64_t hash_mismatches() const { return hash_mismatches_; }
  // Of weights and optimizer state. Requires serving().
  std::uint64_t Digest() const { return store_->Digest(); }
  // Modes without global steps: pushes that have changed this local block.
  std::uint64_t updates(std::size_t local) const { return progress_[local].updates; }
  // Per slot, the newest sequence number applied to this local block.
  const std::vector<std::uint64_t>& sequence_numbers(std::size_t local) const { return progress_[local].last; }
  // Whether this push of the present generation is on its way to the log.
  bool IsBeingLogged(const Push& push) const;
  // The blocks held. Requires serving().
  const BlockStore& store() const { return *store_; }
  // Whether version 0 waits for weights that a worker gives, or for being kept.
  bool awaits_first_weights() const { return !first_weights_.kept(); }
  // Of payloads received and sums of them, not yet in a prepared version.
  std::uint64_t staged_bytes() const;

 private:
  struct BlockProgress {
    StagedBlock staged;
    bool prepared = false;
    std::vector<std::uint64_t> last;  // async: newest sequence number applied, per slot
    std::uint64_t newest = 0;         // async: the greatest of `last`
    std::uint64_t updates = 0;        // async: of this block
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
  // Whether what is served stays, in another generation; then it does.
  bool GoesOn(const Reset& reset) const;
  void GoOn(const Reset& reset);
  std::unique_ptr<SnapshotLoad> MakeLoad(const Reset& reset, const std::vector<BlockIndex>& mine) const;
  // Serves what was loaded, or says why it cannot, once it is known.
  void FinishReset(Instant now, Outbox* out);
  void FailReset(const std::string& reason, Outbox* out);
  void RememberLifeNow(const Reset& reset);
  void TakeLoaded(const SnapshotLoad& load);
  void On(const Pin& pin, Instant now, Outbox* out);
  void On(const SnapshotsKept& kept, Instant now, Outbox* out);
  void PinSnapshot(SnapshotId id, Instant now, Outbox* out);
  bool IsOfHistory(SnapshotId id) const;
  SnapshotId NewestKeptHere() const;
  bool IsSame(SnapshotId begun, SnapshotId asked) const;
  SnapshotImage MakeImage(SnapshotId id) const;
  SnapshotDone NoSnapshot(SnapshotId id, std::string why) const;
  void SendSnapshotDone(Instant now, Outbox* out);
  void FinishSnapshot(SnapshotDone done, Instant now, Outbox* out);
  void On(LifeRemembered result, Instant now, Outbox* out);
  void On(SnapshotWritten result, Instant now, Outbox* out);
  void On(SnapshotLoaded result, Instant now, Outbox* out);
  void On(PeerRead result, Instant now, Outbox* out);
  void On(PartsRemoved result, Instant now, Outbox* out);
  void On(PeerId from, const Fetch& fetch, Outbox* out);
  Status CheckMemory(std::uint64_t elements, SlotIndex slots, Outbox* out) const;
  void ForgetProgress();
  void On(const Commit& commit, Instant now, Outbox* out);
  void On(const Redo& redo, Instant now, Outbox* out);
  void On(const Rates& rates);
  void On(const Shutdown& shutdown);

  void On(PeerId from, const Push& push, const Slice& payload, Instant now, Outbox* out);
  void On(PeerId from, const EndSlot& end, Instant now, Outbox* out);
  void On(PeerId from, const CoverageQuery& query, Outbox* out);
  bool IsBeingLogged(Step sequence, const StagedNode& push) const;
  void Answer(PeerId from, const CoverageQuery& query);
  bool Holds(std::size_t local, Step of, Node node) const;
  void On(PeerId from, const Pull& pull, Instant now, Outbox* out);
  void On(PeerId from, const Assign& assign, const Slice& payload, Instant now, Outbox* out);

  void OnMade(PeerId from, const Assign& assign, const Slice& payload, Instant now, Outbox* out);
  Status CheckMade(const Assign& assign, const Slice& payload) const;
  Status CheckAssign(const Assign& assign, const Slice& payload) const;
  void PinFirstWeights(Instant now, Outbox* out);
  void FirstWeightsAreKept(Instant now, Outbox* out);
  void SendAssigned(Outbox* out);

  // Whether a worker's message belongs to this life and generation; answers it when not.
  bool CheckLife(PeerId from, Generation generation, Incarnation incarnation, Outbox* out);
  Status CheckPush(const Push& push, const Slice& payload) const;
  void StagePush(PeerId from, const Push& push, const Slice& payload, Instant now, Outbox* out);
  void ApplyPush(const PushRecord& push);
  void ApplyEnd(const EndRecord& end);
  void KeepReport(Step step, const SlotReport& report);
  PushRecord RecordOf(const Push& push, const Slice& payload) const;
  void EndAsync(PeerId from, const EndSlot& end, Outbox* out);

  // Where acknowledgements are durable.
  bool Durable() const { return options_.acknowledge == Acknowledge::kDurable; }
  LogHistory OwnHistory() const { return {history_, options_.shard_count}; }
  void Log(PeerId from, PushLogRecord record, Outbox* out);
  void StartAppend(Instant now);
  void TakeFailedAppend(const Status& status, Outbox* out);
  void BeginHistory(Instant now);
  Status BeginReplay(const SnapshotLoad& load);
  Status ReplayRecord(const PushLogRecord& record);
  Status CheckReplay(const PushRecord& push) const;
  void TrimLogTo(const std::vector<SnapshotId>& kept);
  void On(LogBegun result, Instant now, Outbox* out);
  void On(LogAppended result, Instant now, Outbox* out);
  void On(LogRead result, Instant now, Outbox* out);
  void On(LogTrimmed result, Instant now, Outbox* out);

  void Acknowledge(PeerId from, Step step, BlockIndex block, Node node);
  Staged& AckFor(PeerId from, Step step);
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
  // Tentative blocks, to those whose pulls wait for them.
  void SendAhead(Outbox* out);
  void SendAhead(ParkedPull* parked, Outbox* out);
  void SendTentative(PeerId peer, const Pull& pull, std::size_t local, Outbox* out);
  bool MayBePublished() const;
  void TakeBackAhead();
  void StopAhead(PeerId peer);
  void AnswerParkedPulls(Instant now, Outbox* out);
  // What pulls are measured by: the published version, or the clock of the slowest slot.
  Version PullableVersion() const;
  Hello MakeHello() const;
  Prepared MakePrepared() const;
  Progress MakeProgress() const;
  // Without global steps. Per slot, the newest sequence number applied to all blocks here and, for home slots, ended.
  const std::vector<std::uint64_t>& SlotClocks() const { return slot_clocks_.values(); }
  bool IsHome(SlotIndex slot) const { return slot % options_.shard_count == options_.shard; }
  void CountBlocks(SlotIndex slot);
  void CountClocks();
  // A push of this slot was applied to a block that had `before`.
  void RaiseClock(SlotIndex slot, std::uint64_t before);
  void SetClock(SlotIndex slot);
  void Refuse(PeerId to, Code code, std::string message, Outbox* out, BlockIndex block = 0, Step last = {});
  std::size_t home_slot_count() const;
  std::uint32_t credit() const;
  UpdateScalars Scalars(std::uint64_t updates, std::uint64_t samples) const {
    return Scalars(updates, samples, parameters_.loss_scale);
  }
  UpdateScalars Scalars(std::uint64_t updates, std::uint64_t samples, float loss_scale) const;
  // Of the step under way.
  std::vector<GroupRule> Rules() const {
    return MakeGroupRules(options_.optimizer, parameters_.learning_rate, hyper_parameters_.groups());
  }
  Step step() const { return {version_.value}; }

  const ShardOptions options_;
  const std::shared_ptr<monitoring::ShardMetrics> metrics_;

  ShardLife life_;  // as it is, or soon will be, on the disk
  std::vector<SnapshotPart> parts_;
  std::vector<DiskWork> work_;
  std::unique_ptr<SnapshotLoad> load_;  // between Reset and serving
  bool life_remembered_ = false;        // of the Reset under way
  bool life_failed_ = false;            // it is tried again
  Backoff life_backoff_;
  bool going_on_ = false;  // Reset under way, and what is served stays
  bool loaded_ = false;    // of the Reset under way: the blocks are here, perhaps not what the log adds
  bool log_ready_ = true;  // of the Reset under way: begun, or replayed
  struct Writing {
    SnapshotId id;
    std::shared_ptr<std::atomic<bool>> cancelled;
  };
  std::optional<Writing> writing_;
  std::unique_ptr<SnapshotDone> snapshot_done_;  // the newest of this history
  bool snapshot_settled_ = false;                // the coordinator has taken note of it
  std::size_t peer_reads_ = 0;                   // under way
  FirstWeights first_weights_;
  bool first_pin_waits_ = false;                                         // version 0 is to be kept when it is whole
  std::map<std::pair<PeerId, Step>, std::vector<BlockIndex>> assigned_;  // to be acknowledged

  std::vector<LogWork> log_work_;
  LogQueue log_queue_;
  Generation history_;                              // of what is served, or about to be
  std::uint64_t next_record_ = 1;                   // of the log; all before it are applied
  std::map<SnapshotId, std::uint64_t> log_begins_;  // of snapshots of this life and history: first record not in it
  Instant append_since_{};
  bool log_begin_failed_ = false;  // it is tried again
  Backoff log_backoff_;

  Term term_;
  Generation generation_;
  Version version_;  // published; the step under way has the same number
  SlotIndex slot_count_ = 0;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<BlockStore> store_;
  std::unordered_map<BlockIndex, std::size_t> local_of_;
  std::vector<BlockProgress> progress_;     // by local block
  std::vector<std::size_t> segment_start_;  // by local block: its first entry in squares_
  StepParameters parameters_;               // of the step under way
  struct {                                  // whose blocks these are; where workers update, an earlier one
    Version version;
    std::uint64_t updates = 0;
  } held_;
  StepHyperParameters hyper_parameters_;  // of the step under way
  std::size_t lowest_incomplete_ = 0;     // in push order: backward, the last local block first

  std::uint32_t attempt_ = 0;
  float clip_ = 1.0F;
  std::vector<float> trust_ratios_;  // of attempt_, by tensor; empty: all 1
  bool prepared_ = false;
  std::vector<double> squares_;
  std::vector<double> weight_squares_, direction_squares_;  // as squares_; empty for kinds without a trust ratio
  std::map<SlotIndex, SlotReport> next_reports_;            // sync: of the step after
  std::map<SlotIndex, SlotReport> reports_;                 // sync: of this step
  StepProgramState program_state_, next_program_state_;     // sync: that came with reports_ and next_reports_
  std::map<std::pair<std::uint64_t, SlotIndex>, SlotReport> async_reports_;  // async: by (step, slot), until passed
  std::vector<std::uint64_t> ended_;  // async: per home slot, newest sequence number that has ended
  struct LeastOfBlocks {              // of the newest sequence numbers that the blocks have of a slot
    std::uint64_t number = 0;
    std::size_t blocks = 0;  // that have just this one
  };
  std::vector<LeastOfBlocks> least_of_blocks_;  // async: per slot
  RunningMinimum slot_clocks_;                  // async: per slot, SlotClocks()
  std::unique_ptr<const Commit> last_commit_;

  std::map<PeerId, std::uint32_t> told_credit_;  // peers that pushed in this step, and the credit they know of
  std::map<PeerId, ParkedPull> parked_;          // one per peer
  std::vector<bool> welcome_;                    // by local block: since none was parked, a parked pull has named it
  std::map<PeerId, AnsweredPull> answered_;      // that waited for the present version, and what they have of it
  std::map<std::pair<PeerId, Step>, std::unique_ptr<Staged>> acks_;
  std::uint64_t hash_mismatches_ = 0;
  bool progress_changed_ = false;
  bool shut_down_ = false;
  Status refusal_;
  Backoff hello_backoff_, prepared_backoff_, snapshot_backoff_;
  Instant next_progress_{};
  Instant last_coordinator_{};  // when the coordinator was last heard
};

}  // namespace capstan::server
