// Session: the worker's side of the protocol. It learns what to compute, fetches the weights for it, and keeps every
// gradient until all shards that need it have it.
//
// Kind:   owned by SessionLoop's thread; a pure core.
// Limits: kPullWindow blocks are asked for at a time per shard; pushes stay within the shard's credit; both stay within
//         what the line carries in a moment (LinePace).
// Fails:  ends with a Failed event: refused by the coordinator, or the job failed.
// Why:    workers carry no state. A restarted one joins, asks for its slots and the step, and goes on (DESIGN.md 4).
//
// Life:   Join -> JobFile -> Declare() -> view with slots. Then rounds: Ready() -> (coverage) -> pull -> WorkReady ->
//         Push()..., EndSlot()... -> Ready(). A round is void when its generation or step is over; what the application
//         still pushes for it is dropped. Weights arrive only between Ready() and the end of that round's pull.
//         They are published ones: what comes before its version is published waits in ShardPull.
#pragma once

#include <capstan/hyper_parameters.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/backoff.h"
#include "common/base/status.h"
#include "common/config/job/mode.h"
#include "common/data/catalog.h"
#include "common/data/reduction_tree.h"
#include "common/wire/actor.h"
#include "common/wire/line_pace.h"
#include "common/wire/messages/group.h"
#include "worker/session/first_weights.h"
#include "worker/session/push_way.h"
#include "worker/session/step_terms.h"

namespace capstan {
enum class GroupState : std::uint8_t;
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
  std::string name;         // of this worker within the job
  std::uint64_t nonce = 0;  // random per process
  std::uint32_t rank = 0;   // 0: none; r: of `ranks`, for slot r - 1 alone
  std::uint32_t ranks = 0;
  std::string machine;  // empty: it pushes for itself
  std::string metrics;  // host:port where this process serves them; empty: it serves none
  PeerId coordinator;
  // A peer for a shard's endpoint; idempotent. Fails where no connection can be made, whether or not anybody is there.
  std::function<Result<PeerId>(const std::string& endpoint)> connect;
  std::function<void(PeerId)> disconnect = [](PeerId) {};
  std::uint32_t block_elements = kBlockElements;
  std::uint32_t initial_credit = 16;           // assumed at the start of a step; the shard corrects it
  Instant first_retry = LinePace::kFirstWait;  // before answers have been measured
  Instant silence_limit = Instant::max();      // of the coordinator, until Declare gives another
};

// What this worker brings; see Join.
struct Declaration {
  std::vector<TensorSpec> catalog;
  std::string numeric_class;
  std::uint64_t numeric_fingerprint = 0;
  std::uint64_t data_fingerprint = 0;
  Mode mode = Mode::kSync;
  Encoding encoding = Encoding::kFp32;     // of weights and of leaves, but those of statistics
  Instant silence_limit = Instant::max();  // of the coordinator; then the session fails
  std::uint64_t steps = 0;                 // a slot's last sequence number in modes without global steps
  BufferRef given;                         // first weights, laid out as the catalog; null when no tensor is kGiven
};

// One round: these slots of this step, with the weights that have been pulled.
struct Work {
  Generation generation;
  Step step;                // of the data: sync, the global batch; async, how many pushes the slot had before
  std::uint64_t round = 0;  // counts up in this session; names the round in calls
  std::vector<SlotIndex> slots;
  SlotIndex slot_count = 0;
  std::uint64_t updates = 0;  // sync: that the weights have had; else 0
  // Where workers update: the version, and the group of the generation, without addresses; empty: it was given up
  // before this worker heard of it.
  StepTerms terms;
  std::vector<GroupMember> group;
  int rank = 0;
};

class Session {
 public:
  static constexpr std::size_t kPullWindow = 16;
  // Once the sums of what is held are made, while nothing of them arrives: when shards are asked for it, and when it is
  // sent after all.
  static constexpr Instant kHeldAsk = std::chrono::seconds(5), kHeldMax = std::chrono::seconds(15);
  static constexpr std::size_t kFirstPull = 2;  // of a round: what the forward pass begins with is not to share its way

  struct JobFile {
    std::string text;
    JobId job;
  };
  struct Joined {
    SessionId session;
  };
  struct WorkReady {
    Work work;
    float loss_scale = 1.0F;
    bool weights_held = false;  // the application has them whole, from the round before; else they arrive now
  };
  struct WeightsArrived {
    BlockIndex block = 0;
    Version version;
    Slice payload;
    std::string program_state;  // of the version; with block 0
  };
  struct WorkVoid {
    std::uint64_t round = 0;
  };
  struct BarrierWaits {
    std::string missing;  // for people
  };
  struct BarrierPassed {};
  struct GroupKnown {  // where workers update: all members have offered addresses
    Generation generation;
    std::vector<GroupMember> members;  // by rank
    int rank = 0;
  };
  struct LocalGroup {  // the workers of this machine that may add up their pushes
    std::uint64_t epoch = 0;
    std::vector<GroupMember> members;  // by rank; none: this one is alone. Addresses once all have offered theirs
    int rank = 0;
  };
  struct StepLeft {  // sync: this worker has nothing to do in it any more, and may have had nothing at all
    Generation generation;
    Step step;
  };
  struct Finished {};
  struct Failed {
    Status status;
  };
  using Event = std::variant<JobFile, Joined, WorkReady, WeightsArrived, WorkVoid, BarrierWaits, BarrierPassed,
                             GroupKnown, LocalGroup, StepLeft, Finished, Failed>;

  explicit Session(SessionOptions options);
  ~Session();

  void Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  void Tick(Instant now, Outbox* out);
  std::vector<Event> TakeEvents();

  // The application's calls.
  void Declare(Declaration declaration, Instant now, Outbox* out);
  void Ready(Instant now, Outbox* out);
  // `payload` is kept until the block is staged; its bytes must not change until then. A leaf's numbers are encoded as
  // its block's are, a sum's are fp32.
  void Push(std::uint64_t round, Node node, BlockIndex block, std::uint64_t samples, float loss_scale,
            std::uint64_t payload_hash, Slice payload, PushWay way, Instant now, Outbox* out);
  // What is held of the round, and will be, is sent after all.
  void ReleasePushes(std::uint64_t round, Instant now, Outbox* out);
  // The machine's workers have added up what is held of the round: from here on the sums are to arrive.
  void SumsMade(std::uint64_t round, Instant now);
  // `program_state`: after the step; empty: not from this slot.
  void EndSlot(std::uint64_t round, SlotReport report, std::string program_state, Instant now, Outbox* out);
  // Of every push from here on: one entry for each group of the catalog.
  void SetHyperParameters(std::vector<HyperParameters> groups) { hyper_parameters_ = std::move(groups); }
  // Where workers update. Gives blocks of the version that the round's step makes to their shards: `arrays` hold the
  // weights and then the states of the whole catalog, and do not change until the version is published.
  void Give(std::uint64_t round, std::vector<Slice> arrays, const std::vector<BlockIndex>& blocks, Instant now,
            Outbox* out);
  // How far this worker is in forming the group of that generation; `text` as in Beat.
  void SayGroup(Generation generation, GroupState state, std::string text, Instant now, Outbox* out);
  // The same of the group of that epoch, where workers of one machine add up their pushes.
  void SayLocalGroup(std::uint64_t epoch, GroupState state, std::string text, Instant now, Outbox* out);
  // Waits for all members of the job; ends with BarrierPassed. Beside whatever else is under way.
  void Barrier(Instant now, Outbox* out);
  void Leave(const std::string& reason, Outbox* out);

  bool joined() const { return session_.value != 0; }
  Step step() const { return step_; }
  Generation generation() const { return generation_; }
  std::size_t unstaged_pushes() const { return unstaged_; }
  // Whom this session waits for, for people; empty when for nobody.
  std::string WaitingFor() const;

 private:
  enum class RoundState { kNone, kAskingCoverage, kPulling, kComputing };
  struct PendingEnd;  // pending_end.h
  struct ShardLink;   // shard_link.h
  struct ShardLinks;  // these by shard

  void On(const View& view, Instant now, Outbox* out);
  void On(PeerId from, const Error& error, Instant now, Outbox* out);
  void On(ShardLink* link, const Staged& staged, Instant now, Outbox* out);
  void On(ShardLink* link, const Weights& weights, const Slice& payload, Instant now, Outbox* out);
  void OnTentative(ShardLink* link, const Weights& weights, const Slice& payload, Instant now, Outbox* out);
  void On(ShardLink* link, const Published& published, Instant now, Outbox* out);
  void On(ShardLink* link, const Assigned& assigned, Instant now, Outbox* out);
  void HearOfGroup();
  void HearOfLocalGroup(Instant now, Outbox* out);
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
  // Chooses what to compute next: fills round_slots_ and step_. False: nothing, or not known yet.
  bool ChooseSyncWork(Instant now, Outbox* out);
  bool ChooseAsyncWork(Instant now, Outbox* out);
  void AskCoverage(Instant now, Outbox* out);
  void SayNothingIsHeld(Outbox* out);
  Encoding EncodingOf(BlockIndex block) const { return catalog_->blocks()[block].EncodingIn(declaration_->encoding); }
  bool Synchronous() const { return HasGlobalSteps(declaration_->mode); }
  bool Replicated() const { return WorkersUpdate(declaration_->mode); }
  // The number that names a push: the step, or the sequence number of the slot.
  Step PushStep() const { return Synchronous() ? step_ : step_.Next(); }
  void SendJoin(Instant now, Outbox* out);
  void SendBeat(Instant now, Outbox* out);
  // Whether something sent to this shard has no answer yet.
  bool AwaitsShard(const ShardLink& link) const;
  bool AwaitsAcknowledgement(const ShardLink& link) const;
  bool AwaitsWeights(const ShardLink& link) const;

  const SessionOptions options_;
  std::optional<Declaration> declaration_;
  std::unique_ptr<Catalog> catalog_;
  std::vector<ShardIndex> placement_;
  std::vector<std::size_t> position_in_shard_;  // by block: in push order

  JobId job_;
  SessionId session_;
  std::unique_ptr<View> view_;
  bool slots_changed_ = false;  // since the last view of a running job
  bool ended_ = false;
  bool left_ = false;

  Generation generation_;
  Step step_;  // of the round; sync: the version pulled
  RoundState round_state_ = RoundState::kNone;
  std::uint64_t round_ = 0;
  bool application_ready_ = false;
  bool coverage_sure_ = false;  // nobody else can have contributed for our slots in this step
  std::vector<SlotIndex> round_slots_;
  std::vector<SlotIndex> done_slots_;  // of step_: computed by us, or covered
  struct StepBefore {                  // of step_, while nothing of step_ has arrived yet
    std::vector<SlotIndex> done_slots;
    bool weights_complete = false;
  };
  std::optional<StepBefore> step_before_;
  std::vector<std::vector<Node>> covered_;  // by block: what shards held before we began; empty: nothing of any
  std::vector<SlotIndex> covered_ends_;
  float loss_scale_ = 1.0F;                    // of step_
  std::uint64_t updates_ = 0;                  // of step_; sync
  bool weights_complete_ = false;              // the application holds step_'s weights whole
  bool announced_ = false;                     // WorkReady of this round has been given out
  bool stop_ = false;                          // the last version has been seen: only the coordinator's word is awaited
  std::map<SlotIndex, std::uint64_t> clocks_;  // async: newest sequence number pushed or applied everywhere, per slot
  std::map<SlotIndex, std::uint64_t> learned_clocks_;  // while asking for coverage: minimum over the shards heard
  const std::unique_ptr<ShardLinks> links_;
  std::size_t unstaged_ = 0;  // pushes of all links
  std::vector<PendingEnd> ends_;
  std::vector<HyperParameters> hyper_parameters_;  // empty: the job file owns them
  FirstWeights first_weights_;
  StepTerms terms_;  // of step_, where workers update
  struct Made {      // of the version that `step` makes
    Step step;
    std::vector<Slice> arrays;
    OwedBlocks owed;
  };
  Made made_;
  // Of generation_: a view names nobody any more once its group is to be another.
  std::vector<GroupMember> members_;  // without addresses
  int rank_ = 0;                      // of this worker there
  GroupState group_ = {};             // kNone
  std::string group_text_;
  bool group_known_ = false;  // has been said
  struct Local {
    std::uint64_t epoch = 0;
    GroupState group = {};  // kNone
    std::string text;
    bool known = false;          // addresses have been said
    std::uint64_t released = 0;  // round: nothing of it is held
    std::uint64_t held = 0;      // the newest round of which something is, or was
    // When its sums were made, or something of them arrived, last; empty: the machine's workers are not so far.
    std::optional<Instant> held_moved;
    Instant next_question{};  // to shards
  };
  Local local_;
  std::vector<Event> events_;
  bool in_barrier_ = false;
  std::uint64_t barrier_ = 0;    // its number; 0: not known yet, no view has come
  std::string barrier_missing_;  // whom it waits for, as the coordinator says
  Backoff join_retry_;
  std::optional<Instant> coordinator_heard_;
  Instant last_tick_{};
  Instant next_beat_{};
};

}  // namespace capstan::client
