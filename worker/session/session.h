// Session: the worker's side of the protocol. It learns what to compute, fetches the weights for that, and keeps every
// gradient until the shard that owns the block has acknowledged it.
//
// Kind:   owned by SessionLoop's thread; a pure core.
// Limits: those of PullLine and PushLine for each shard.
// Fails:  ends with a Failed event: a catalog that is not valid, a refusal by the coordinator or a shard, an address of
//         a shard that cannot be connected to, a coordinator that is silent for too long, a failed job, or a request
//         for first weights that this worker no longer has.
// Why:    a session has no state that a restart needs. A restarted worker joins, gets slots and the step, and goes on.
//
// Life:   Join -> JobFile -> Declare() -> view with slots. Then rounds: Ready() -> (coverage) -> pull -> WorkReady ->
//         Push()..., EndSlot()... -> Ready(). A round becomes void if, for example, its generation or step is over;
//         later pushes for it are dropped. Weights arrive only between Ready() and the end of that round's pull. The
//         application gets only published weights: speculative blocks wait in ShardPull for the publication.
//
// The session routes messages and calls to its parts: JobView, CoordinatorLine and BarrierWait for the coordinator; a
// ShardLink with a PushLine and a PullLine for each shard; Uploads; DeferredPushes; and the ModeParts, the only parts
// that depend on the mode.
#pragma once

#include <capstan/hyper_parameters.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/config/job/mode.h"
#include "common/data/catalog.h"
#include "common/wire/actor.h"
#include "common/wire/line_pace.h"
#include "common/wire/messages/membership.h"
#include "worker/session/barrier_wait.h"
#include "worker/session/coordinator_line.h"
#include "worker/session/deferred_pushes.h"
#include "worker/session/gradient.h"
#include "worker/session/job_view.h"
#include "worker/session/mode_parts.h"
#include "worker/session/session_context.h"
#include "worker/session/session_events.h"
#include "worker/session/shard_link.h"
#include "worker/session/uploads.h"

namespace capstan {
struct Error;
struct SlotReport;
}  // namespace capstan

namespace capstan::session {

struct SessionOptions {
  std::string name;         // the worker's name, unique in the job
  std::uint64_t nonce = 0;  // random per process
  std::uint32_t rank = 0;   // 0: none; r, at most `ranks`: this worker computes only slot r - 1
  std::uint32_t ranks = 0;
  std::string machine;  // the machine's name; empty: this worker adds up nothing with others
  std::string metrics;  // host:port or https://host:port where this process serves metrics; empty: none
  PeerId coordinator;
  // Returns the peer for a shard's endpoint; the same one each time. Fails only if the connection cannot be set up;
  // whether the shard answers is not checked.
  std::function<Result<PeerId>(const std::string& endpoint)> connect;
  std::function<void(PeerId)> disconnect = [](PeerId) {};
  std::uint32_t block_elements = kBlockElements;
  std::uint32_t initial_credit = 16;           // credit assumed at the start of a step; the shard corrects it
  Instant first_retry = LinePace::kFirstWait;  // wait before a question, until answers have been measured
  Instant silence_limit = Instant::max();      // longest silence of the coordinator, until Declare gives another
  std::function<TimeSpent()> time_spent = [] { return TimeSpent{}; };  // for Heartbeats
};

// What the application declares: its model and data for the Join message, settings of the job, and first weights.
struct Declaration {
  std::vector<TensorSpec> catalog;
  std::string numeric_class;
  std::uint64_t numeric_fingerprint = 0;
  std::uint64_t data_fingerprint = 0;
  Mode mode = Mode::kSync;
  Encoding encoding = Encoding::kFp32;     // encoding of weights and of leaves, except statistics
  Instant silence_limit = Instant::max();  // longest silence of the coordinator; then the session fails
  std::uint64_t steps = 0;                 // modes without global steps: a slot's last sequence number
  // Jobs whose optimizer stays in the program: how many arrays a version has for the program's state; else nothing.
  std::optional<std::uint32_t> state_arrays = std::nullopt;
  // Whether shards send this worker weights of a version that is not published yet. They have to be kept apart until
  // then, which costs a copy. It gains nothing where weights are read from shared memory.
  bool speculates = true;
  BufferRef given;  // first weights, laid out as the catalog; null when no tensor is kFromWorker
};

// External: what a program has done in a round.
struct VersionSettled {
  enum class How : std::uint8_t {
    kTaken,     // it has the round's version now
    kDeclined,  // it has not made the version of a round without slots, and has none now
    kGiven,     // it gives the version that it has, in a round with `keep`
  };
  How how = How::kTaken;
  std::uint64_t round = 0;
  Generation generation = {};
  Step version = {};
  // kGiven: the weights, and the rest of the program's state, each for the whole catalog; and the state's beginning.
  std::vector<Slice> arrays = {};
  std::string program_state = {};
};

class Session {
 public:
  using JobFile = session::JobFile;
  using Joined = session::Joined;
  using WorkReady = session::WorkReady;
  using WeightsArrived = session::WeightsArrived;
  using WorkVoid = session::WorkVoid;
  using BarrierWaits = session::BarrierWaits;
  using BarrierPassed = session::BarrierPassed;
  using GroupKnown = session::GroupKnown;
  using MachineGrouping = session::MachineGrouping;
  using StepDone = session::StepDone;
  using Finished = session::Finished;
  using Failed = session::Failed;
  using Event = SessionEvent;

  explicit Session(SessionOptions options);

  void Handle(PeerId from, const Message& message, Instant now, Outbox* out);
  void Tick(Instant now, Outbox* out);
  std::vector<Event> TakeEvents() { return std::exchange(events_, {}); }
  // Whether a transport may copy this message's weights to where the application reads them before Handle has checked
  // them. It may if Handle would hand them over should they be whole, and if until then the application reads nothing
  // there, or drops what it computes from it.
  bool HandsOver(PeerId from, const Header& header, std::size_t payload_bytes) const;

  // Calls from the application.
  void Declare(Declaration declaration, Instant now, Outbox* out);
  void Ready(Instant now, Outbox* out);
  void Push(Gradient gradient, Instant now, Outbox* out);
  // Sends the deferred pushes of this round and earlier ones, and sends later pushes of these rounds at once.
  void ReleasePushes(std::uint64_t round, Instant now, Outbox* out);
  // Notes that the machine's workers have added up the round's deferred pushes. From now on the shards should have the
  // sums soon.
  void SumsMade(std::uint64_t round, Instant now) { deferred_.SumsMade(round, now); }
  // Call when the slot's work of the round is done. `program_state`: the training program's state after the step;
  // empty: this slot brings none.
  void EndSlot(std::uint64_t round, SlotReport report, std::string program_state, Instant now, Outbox* out);
  // Sets what every later push carries: one entry for each group of the catalog.
  void SetHyperParameters(std::vector<HyperParameters> groups) { hyper_parameters_ = std::move(groups); }
  // allreduce: uploads to the shards these blocks of the version that the round's step makes. `arrays` hold the weights
  // and then the optimizer's states, each for the whole catalog. They must not change until the version is published.
  void UploadVersion(std::uint64_t round, std::vector<Slice> arrays, const std::vector<BlockIndex>& blocks, Instant now,
                     Outbox* out);
  // External: notes what the program has made of a round, or uploads what it gives in a round with `keep`.
  void Settle(VersionSettled settled, Instant now, Outbox* out);
  // allreduce: reports how far this worker is in forming the generation's group. `text`: as Heartbeat::group_text.
  void ReportGroup(Generation generation, GroupState state, std::string text, Instant now, Outbox* out);
  // Reports how far this worker is in forming its machine's group of this epoch, whose members add up their pushes.
  // `text`: as Heartbeat::group_text.
  void ReportMachineGroup(std::uint64_t epoch, GroupState state, std::string text, Instant now, Outbox* out);
  // Starts to wait for all members of the job; the wait ends with the event BarrierPassed. Rounds go on meanwhile.
  void Barrier(Instant now, Outbox* out);
  void Leave(const std::string& reason, Outbox* out);

  // 0: this worker has not joined.
  SessionId id() const { return context_.session; }
  Step step() const { return mode_.plan ? mode_.plan->step() : Step{}; }
  Generation generation() const { return context_.generation; }
  // For counts of pushes.
  const ShardLinks& links() const { return links_; }
  // Returns a text that names the peers this session waits for; empty when it waits for none.
  std::string WaitingFor() const;

 private:
  enum class RoundState { kNone, kAskingCoverage, kPulling, kComputing };
  struct Round {
    RoundState state = RoundState::kNone;
    std::uint64_t number = 0;
    std::vector<SlotIndex> slots;
    bool announced = false;  // WorkReady of this round has been issued
    bool stop = false;       // the last version has been seen: wait for the coordinator to end the job
  };
  // Which kinds of answers this session still expects from a shard.
  struct Owed {
    bool coverage = false, acknowledgement = false, weights = false;
    bool any() const { return coverage || acknowledgement || weights; }
  };

  void On(const View& view, Instant now, Outbox* out);
  void On(const Error& error, Instant now, Outbox* out);
  void On(ShardLink* link, const Staged& staged, Instant now, Outbox* out);
  void On(ShardLink* link, const Weights& weights, const Slice& payload, Instant now, Outbox* out);
  void On(ShardLink* link, const Published& published, Instant now, Outbox* out);
  void On(ShardLink* link, const Error& error, Instant now, Outbox* out);

  void Fail(Status status) {
    ended_ = true;
    events_.push_back(Failed{std::move(status)});
  }
  void SendJoin(Instant now, Outbox* out);
  void SendBeat(Instant now, Outbox* out);
  void FollowBarrier(const View& view, Instant now, Outbox* out);
  void EnterGeneration(const View& view, Instant now, Outbox* out);
  void UploadInitialWeights(Instant now, Outbox* out);
  void CheckDeferredPushes(Instant now, Outbox* out);
  Owed OwedBy(const ShardLink& link) const;

  void BeginRound(Instant now, Outbox* out);
  void AnnounceWork();
  void HandOver(BlockIndex block, Version version, const Slice& payload, std::string program_state);
  void GoOnPulling(ShardLink* link, Instant now, Outbox* out);
  void DropPulls() {
    round_.state = RoundState::kNone;
    for (auto& [shard, link] : links_) link.down.LetGo();
  }
  void VoidRound();
  void StartOverWithin(const std::vector<SlotIndex>& slots);
  void MoveToStep(Step step, Instant now, Outbox* out);

  const SessionOptions options_;
  std::optional<Declaration> declaration_;
  SessionContext context_;
  ModeParts mode_;  // what depends on the job's mode; set by Declare
  bool ended_ = false;
  bool left_ = false;

  JobView view_;
  CoordinatorLine coordinator_;
  BarrierWait barrier_;

  Round round_;
  bool application_ready_ = false;
  ShardLinks links_{context_};
  Uploads uploads_;
  DeferredPushes deferred_;
  std::vector<HyperParameters> hyper_parameters_;  // empty: the job file owns them
  std::vector<Event> events_;
};

}  // namespace capstan::session
