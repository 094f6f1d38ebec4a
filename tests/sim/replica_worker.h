// ReplicaWorker: the application of a simulated worker in mode allreduce: it plays ReplicaClient (worker/train) around
// its Session, with the real Replica, one step at a time.
//
// Kind:   owned by a SimWorker.
// Limits: like the real one, it gets no news of the job while it connects or waits for a version from another member.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "tests/sim/mutants.h"
#include "tests/sim/ring_board.h"
#include "worker/allreduce/replica.h"
#include "worker/allreduce/replica_version.h"
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
  // Whether it is ready for work.
  bool idle() const { return state_ == State::kIdle; }
  const std::string& violation() const { return violation_; }

 private:
  enum class State { kIdle, kSettling, kOffered, kConnecting, kSharing, kComputing, kReducing, kWaiting };

  bool Chance(double probability) { return settings_.random->Unit() < probability; }
  Instant Up_to(std::uint64_t milliseconds) {
    return Instant(static_cast<std::int64_t>(settings_.random->Below(milliseconds * 1'000'000)));
  }
  bool Calm(Instant now) const { return now >= settings_.options->calm_after; }

  void Settle(Instant now, Outbox* out);
  bool TakeVersion();
  session::StepTerms Believed() const;
  void Offer(Instant now, Outbox* out);
  void Connect(Instant now, Outbox* out);
  void Share(Instant now, Outbox* out);
  void TakeShared(Instant now, Outbox* out);
  void Formed(Instant now, Outbox* out);
  void BeginStep(Instant now);
  void Submit(Instant now);
  void Reduce(Instant now, Outbox* out);
  void FinishStep(Instant now, Outbox* out);
  void EndSlots(const train::Replica::Outcome& outcome, Instant now, Outbox* out);
  std::vector<BlockIndex> BlocksToGive();
  void LeaveGroup();
  // The group is over, and the coordinator is told.
  void Break(GroupState state, const std::string& why, Instant now, Outbox* out);
  void GiveUp(Instant now, Outbox* out);
  Arrays Present();

  const Settings settings_;
  session::Session* const session_;
  train::Replica replica_;
  State state_ = State::kIdle;
  Instant until_{};     // no action before this time
  Instant deadline_{};  // for forming the group
  session::RoundWork work_;
  bool void_ = false;
  train::ReplicaVersion version_;
  Generation group_of_;
  RingGroup* group_ = nullptr;
  std::optional<session::Session::GroupKnown> known_;
  bool submitted_ = false;  // in this round
  std::size_t calls_ = 0;   // sums begun in this group
  std::vector<float> sum_;
  std::string violation_;
};

}  // namespace capstan::sim
