// ReplicaWorker: the application of a simulated worker in mode allreduce. It executes the commands of the real
// AllReduceCore with the real Replica, over a RingBoard instead of connections.
//
// Kind:   owned by a SimWorker.
// Limits: as in ReplicaClient, a worker does not notice while it connects that its round is over, and uses a sum that
//         has arrived even if the round is over.
// Why:    the rules are the core's. This class adds only the delays and failures of a network between ranks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "tests/sim/mutants.h"
#include "tests/sim/ring_board.h"
#include "worker/allreduce/all_reduce_core.h"
#include "worker/allreduce/replica.h"
#include "worker/session/session.h"

namespace capstan::sim {

class ReplicaWorker {
 public:
  struct Settings {
    std::uint64_t node = 0;
    const ClusterOptions* options = nullptr;
    const Catalog* catalog = nullptr;
    RandomStream* random = nullptr;
    RingBoard* board = nullptr;
    Flaw flaw = Flaw::kNone;
    std::function<std::optional<Arrays>(Version, Generation)> read;  // reads from the shards
    std::function<void(Generation, Version, const Arrays&)> computes_with, made;
    std::function<void(const char*)> count;
  };
  ReplicaWorker(Settings settings, const JobConfig& config, session::Session* session);
  ~ReplicaWorker() { settings_.board->Gone(settings_.node); }
  ReplicaWorker(const ReplicaWorker&) = delete;
  ReplicaWorker& operator=(const ReplicaWorker&) = delete;

  void TakeWork(session::Session::WorkReady& ready);
  void TakeVoid(std::uint64_t round);
  void TakeGroup(session::Session::GroupKnown& known) { known_ = std::move(known); }
  void Run(Instant now, Outbox* out);
  // Whether the application waits for work.
  bool idle() const { return core_.is_idle(); }
  const std::string& violation() const { return violation_; }

 private:
  using Commands = train::AllReduceCommands;

  bool Chance(double probability) { return settings_.random->Unit() < probability; }
  Instant Up_to(std::uint64_t milliseconds) {
    return Instant(static_cast<std::int64_t>(settings_.random->Below(milliseconds * 1'000'000)));
  }
  bool Calm() const { return now_ >= settings_.options->calm_after; }

  // Changes the round that the core gets, if this worker's flaw demands it.
  void Mislead(session::RoundWork* work);
  void CountTaking();
  void Settle();
  void Compute();
  void ComputeSlot();

  void Carry(Commands commands);
  Commands Do(const train::AllReduceCommand& command);
  Commands On(const train::ReportGroup& report);
  Commands On(const train::ConnectMembers& connect);
  Commands On(const train::ReadVersion& read);
  Commands On(const train::ShareVersion& share);
  Commands On(const train::OpenSlot& slot);
  Commands On(const train::ReduceSamples& reduce);
  Commands On(const train::ReduceBucket& reduce);
  Commands On(const train::FinishUpdate& finish);
  Commands On(const train::UploadBlocks& upload);

  // Continues a command that takes long. Returns nullopt while the command is not done, and then the core's next
  // commands.
  std::optional<Commands> GoOn(const train::ConnectMembers&);
  std::optional<Commands> GoOn(const train::ShareVersion& share);
  std::optional<Commands> GoOn(const train::AwaitSamples&);
  std::optional<Commands> GoOn(const train::AwaitBucket& await);
  std::optional<Commands> GoOn(const auto&) { return std::nullopt; }
  std::optional<Commands> AwaitOthers(bool is_there);

  // Whether handing over gradients fails, because an earlier sum has failed.
  bool FailsToSubmit() { return !Calm() && group_->broken() && Chance(0.1); }
  void LeaveGroup();
  RingPart* Part();
  Arrays Present();

  const Settings settings_;
  session::Session* const session_;
  train::Replica replica_;
  const std::vector<train::Bucket> buckets_;
  train::AllReduceCore core_;
  Instant now_{};  // of the present call of Run
  Outbox* out_ = nullptr;

  Instant until_{};                                 // no action before this time
  Instant deadline_{};                              // for forming the group
  std::optional<train::AllReduceCommand> pending_;  // a command that takes long
  std::optional<session::Session::GroupKnown> known_;
  RingGroup* group_ = nullptr;
  std::size_t steps_ = 0;  // begun in this group
  bool on_devices_ = false;

  struct Round {
    Generation generation;  // as the session named it
    bool settled = false, begun = false, has_part = false;
    bool over = false;
    bool has_read = false;  // it has the version from the shards
    std::size_t slot = 0;   // index of the present slot
    train::OpenSlot open;
  };
  Round round_;
  std::map<Generation, Generation> kept_for_;  // with Flaw::kGroupKept: the group's generation, for each later one
  std::vector<float> sum_;
  std::string violation_;
};

}  // namespace capstan::sim
