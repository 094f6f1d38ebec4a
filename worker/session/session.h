// Session: the worker's side of the protocol. It learns what to compute, fetches the weights for it, and keeps every
// gradient until its shard has staged it.
//
// Kind:   owned by SessionLoop's thread; a pure core.
// Limits: kPullWindow blocks requested at a time per shard; pushes in flight within the shard's credit; both within the
//         line's window (LinePace).
// Fails:  ends with a Failed event: refused by the coordinator or a shard, a shard's address that cannot be connected
//         to, a coordinator that is silent for too long, or a failed job.
// Why:    workers carry no state. A restarted worker joins, asks for its slots and the step, and goes on.
//
// Life:   Join -> JobFile -> Declare() -> view with slots. Then rounds: Ready() -> (coverage) -> pull -> WorkReady ->
//         Push()..., EndSlot()... -> Ready(). A round is void when its generation or step is over; later pushes for it
//         are dropped. Weights arrive only between Ready() and the end of that round's pull. The application gets only
//         published weights: speculative blocks wait in ShardPull until their version is published.
#pragma once

#include <capstan/hyper_parameters.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/config/job/mode.h"
#include "common/data/catalog.h"
#include "common/data/reduction_tree.h"
#include "common/wire/actor.h"
#include "common/wire/line_pace.h"
#include "worker/session/barrier_wait.h"
#include "worker/session/coordinator_line.h"
#include "worker/session/first_weights.h"
#include "worker/session/held_pushes.h"
#include "worker/session/push_way.h"
#include "worker/session/session_events.h"
#include "worker/session/step_terms.h"
#include "worker/session/worker_group.h"

namespace capstan {
struct Assigned;
struct Error;
struct Published;
struct SlotReport;
struct Staged;
struct View;
struct Weights;
}  // namespace capstan

namespace capstan::client {

struct PendingRound;

struct SessionOptions {
  std::string name;         // the worker's name, unique in the job
  std::uint64_t nonce = 0;  // random per process
  std::uint32_t rank = 0;   // 0: none; r, at most `ranks`: this worker computes only slot r - 1
  std::uint32_t ranks = 0;
  std::string machine;  // the machine's name; empty: this worker adds up nothing with others
  std::string metrics;  // host:port where this process serves metrics; empty: none
  PeerId coordinator;
  // Returns the peer for a shard's endpoint; idempotent. Fails only if the connection cannot be set up; whether the
  // shard answers is not checked.
  std::function<Result<PeerId>(const std::string& endpoint)> connect;
  std::function<void(PeerId)> disconnect = [](PeerId) {};
  std::uint32_t block_elements = kBlockElements;
  std::uint32_t initial_credit = 16;           // credit assumed at the start of a step; the shard corrects it
  Instant first_retry = LinePace::kFirstWait;  // wait before a question, until answers have been measured
  Instant silence_limit = Instant::max();      // longest silence of the coordinator, until Declare gives another
};

// This worker's part of Join, and its first weights.
struct Declaration {
  std::vector<TensorSpec> catalog;
  std::string numeric_class;
  std::uint64_t numeric_fingerprint = 0;
  std::uint64_t data_fingerprint = 0;
  Mode mode = Mode::kSync;
  Encoding encoding = Encoding::kFp32;     // encoding of weights and of leaves, except statistics
  Instant silence_limit = Instant::max();  // longest silence of the coordinator; then the session fails
  std::uint64_t steps = 0;                 // modes without global steps: a slot's last sequence number
  BufferRef given;                         // first weights, laid out as the catalog; null when no tensor is kGiven
};

class Session {
 public:
  static constexpr std::size_t kPullWindow = 16;
  // Blocks of a round's first pull: few, so that the first layers' weights do not share the line.
  static constexpr std::size_t kFirstPull = 2;

  using JobFile = client::JobFile;
  using Joined = client::Joined;
  using WorkReady = client::WorkReady;
  using WeightsArrived = client::WeightsArrived;
  using WorkVoid = client::WorkVoid;
  using BarrierWaits = client::BarrierWaits;
  using BarrierPassed = client::BarrierPassed;
  using GroupKnown = client::GroupKnown;
  using LocalGroup = client::LocalGroup;
  using StepLeft = client::StepLeft;
  using Finished = client::Finished;
  using Failed = client::Failed;
  using Event = SessionEvent;

  explicit Session(SessionOptions options);
  ~Session();

  void Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  void Tick(Instant now, Outbox* out);
  std::vector<Event> TakeEvents();

  // Calls from the application.
  void Declare(Declaration declaration, Instant now, Outbox* out);
  void Ready(Instant now, Outbox* out);
  // `payload` is kept until the block is staged; its bytes must not change until then. A leaf is in its block's
  // encoding, a sum in fp32.
  void Push(std::uint64_t round, Node node, BlockIndex block, std::uint64_t samples, float loss_scale,
            std::uint64_t payload_hash, Slice payload, PushWay way, Instant now, Outbox* out);
  // Sends the round's held pushes (kHeld), those already here and those still to come.
  void ReleasePushes(std::uint64_t round, Instant now, Outbox* out);
  // The machine's workers have added up the round's held pushes. From now on the shards should acknowledge the sums.
  void SumsMade(std::uint64_t round, Instant now);
  // `program_state`: the state after the step; empty: this slot brings none.
  void EndSlot(std::uint64_t round, SlotReport report, std::string program_state, Instant now, Outbox* out);
  // Every later push carries these: one entry for each group of the catalog.
  void SetHyperParameters(std::vector<HyperParameters> groups) { hyper_parameters_ = std::move(groups); }
  // allreduce: uploads blocks of the version that the round's step makes to their shards. `arrays` hold the weights and
  // then the optimizer's states, each for the whole catalog. They must not change until the version is published.
  void Give(std::uint64_t round, std::vector<Slice> arrays, const std::vector<BlockIndex>& blocks, Instant now,
            Outbox* out);
  // Reports this worker's state in forming the generation's group; `text` as in Beat.
  void SayGroup(Generation generation, GroupState state, std::string text, Instant now, Outbox* out);
  // The same for the machine's group of that epoch, whose members add up their pushes.
  void SayLocalGroup(std::uint64_t epoch, GroupState state, std::string text, Instant now, Outbox* out);
  // Waits for all members of the job; ends with BarrierPassed. Rounds go on meanwhile.
  void Barrier(Instant now, Outbox* out);
  void Leave(const std::string& reason, Outbox* out);

  bool joined() const { return session_.value != 0; }
  Step step() const { return step_; }
  Generation generation() const { return generation_; }
  std::size_t unstaged_pushes() const { return unstaged_; }
  // Text that names the peers this session waits for; empty when it waits for none.
  std::string WaitingFor() const;

 private:
  enum class RoundState { kNone, kAskingCoverage, kPulling, kComputing };
  struct PendingEnd;  // pending_end.h
  struct ShardLink;   // shard_link.h
  struct ShardLinks;  // the ShardLink of each shard

  void On(const View& view, Instant now, Outbox* out);
  void On(PeerId from, const Error& error, Instant now, Outbox* out);
  void On(ShardLink* link, const Staged& staged, Instant now, Outbox* out);
  void On(ShardLink* link, const Weights& weights, const Slice& payload, Instant now, Outbox* out);
  void OnTentative(ShardLink* link, const Weights& weights, const Slice& payload, Instant now, Outbox* out);
  void On(ShardLink* link, const Published& published, Instant now, Outbox* out);
  void On(ShardLink* link, const Assigned& assigned, Instant now, Outbox* out);
  void FollowGroup(Instant now, Outbox* out);
  void LookAfterHeld(Instant now, Outbox* out);
  void SendMade(ShardLink* link, Instant now, Outbox* out);
  void GiveFirstWeights(Instant now, Outbox* out);
  void SendFirstWeights(ShardLink* link, Instant now, Outbox* out);
  void ForgetOwed(bool first_weights);
  void OnShardError(ShardLink* link, const Error& error, Instant now, Outbox* out);
  ShardLink* LinkOf(PeerId peer);
  static bool Has(const std::vector<SlotIndex>& slots, SlotIndex slot);

  void FollowBarrier(const View& view, Instant now, Outbox* out);
  void EnterGeneration(const View& view, Instant now, Outbox* out);
  void VoidRound();
  void MoveToStep(Step step, Instant now, Outbox* out);
  void DropPassed(ShardIndex shard, Step passed);
  bool IsOn(const ShardLink& link, BlockIndex block) const;
  void SettleStaged(ShardLink* link, const Staged& staged, Instant now);
  void TakeCredit(ShardLink* link, const Staged& staged, Instant now);
  void TakeAnswer(ShardLink* link, const Staged& staged, Instant now, Outbox* out);
  void BeginRound(Instant now, Outbox* out);
  void FinishCoverage(Instant now, Outbox* out);
  void BeginPull(Instant now, Outbox* out);
  std::vector<std::size_t> MoreBlocks(ShardLink* link, Instant now);
  void AskForBlocks(ShardLink* link, Instant now, Outbox* out);
  void SendPull(ShardLink* link, const std::vector<std::size_t>& wanted, Instant now, Outbox* out);
  std::optional<std::size_t> PlaceOf(const ShardLink& link, const Weights& weights, const Slice& payload) const;
  void HandOver(BlockIndex block, Version version, const Slice& payload, std::string program_state);
  void GoOnPulling(ShardLink* link, Instant now, Outbox* out);
  void EndAtStop();
  void AnnounceWork(float loss_scale);
  bool PullComplete() const;
  void ChooseAgain();
  void SendAllowed(ShardLink* link, Instant now, Outbox* out);
  void AskWhenDue(ShardLink* link, LinePace* line, bool awaited, Instant now, Outbox* out);
  bool Covered(BlockIndex block, Node node) const;
  bool AllStaged() const;
  bool AwaitsMachine() const;
  std::optional<PendingRound> OldestPush() const;
  // Chooses what to compute next: fills round_slots_ and step_. False: no work, or not known yet.
  bool ChooseSyncWork(Instant now, Outbox* out);
  bool ChooseAsyncWork(Instant now, Outbox* out);
  void AskCoverage(Instant now, Outbox* out);
  void SayNothingIsHeld(Outbox* out);
  Encoding EncodingOf(BlockIndex block) const { return catalog_->blocks()[block].EncodingIn(declaration_->encoding); }
  bool Synchronous() const { return HasGlobalSteps(declaration_->mode); }
  bool Replicated() const { return WorkersUpdate(declaration_->mode); }
  // The number that names a push: sync: the step; async: the slot's sequence number.
  Step PushStep() const { return Synchronous() ? step_ : step_.Next(); }
  void SendJoin(Instant now, Outbox* out);
  void SendBeat(Instant now, Outbox* out);
  // Whether this shard owes an answer: weights or an acknowledgement.
  bool AwaitsShard(const ShardLink& link) const;
  bool AwaitsAcknowledgement(const ShardLink& link) const;
  bool AwaitsWeights(const ShardLink& link) const;

  const SessionOptions options_;
  std::optional<Declaration> declaration_;
  std::unique_ptr<Catalog> catalog_;
  std::vector<ShardIndex> placement_;
  std::vector<std::size_t> position_in_shard_;  // place in the shard's push order, by block

  JobId job_;
  SessionId session_;
  std::unique_ptr<View> view_;
  bool slots_changed_ = false;  // this session's slots changed since the last view of a running job
  bool ended_ = false;
  bool left_ = false;

  Generation generation_;
  Step step_;  // the round's step; sync: also the version pulled
  RoundState round_state_ = RoundState::kNone;
  std::uint64_t round_ = 0;
  bool application_ready_ = false;
  bool coverage_sure_ = false;  // no other worker can have pushed for our slots in this step
  std::vector<SlotIndex> round_slots_;
  std::vector<SlotIndex> done_slots_;  // slots of step_ that we computed or that are covered
  struct StepBefore {                  // the step before step_, kept until weights of step_ arrive
    std::vector<SlotIndex> done_slots;
    bool weights_complete = false;
  };
  std::optional<StepBefore> step_before_;
  std::vector<std::vector<Node>> covered_;  // nodes that shards had when we began, by block; empty: none
  std::vector<SlotIndex> covered_ends_;
  float loss_scale_ = 1.0F;        // loss scale of step_
  std::uint64_t updates_ = 0;      // sync: updates that step_'s weights have had
  bool weights_complete_ = false;  // the application has all of step_'s weights
  bool announced_ = false;         // WorkReady of this round has been issued
  bool stop_ = false;              // the last version has been seen: wait for the coordinator to end the job
  // async: per slot, the newest sequence number pushed by us or applied on all shards.
  std::map<SlotIndex, std::uint64_t> clocks_;
  // While asking for coverage: per slot, the minimum over the answers so far.
  std::map<SlotIndex, std::uint64_t> learned_clocks_;
  const std::unique_ptr<ShardLinks> links_;
  std::size_t unstaged_ = 0;  // unstaged pushes of all links
  std::vector<PendingEnd> ends_;
  std::vector<HyperParameters> hyper_parameters_;  // empty: the job file owns them
  FirstWeights first_weights_;
  StepTerms terms_;  // allreduce: terms of step_
  struct Made {      // the version that `step` makes, being uploaded
    Step step;
    std::vector<Slice> arrays;
    OwedBlocks owed;
  };
  Made made_;
  std::unique_ptr<WorkerGroup> group_;  // set by Declare
  HeldPushes held_;
  std::vector<Event> events_;
  BarrierWait barrier_;
  CoordinatorLine coordinator_;
};

}  // namespace capstan::client
