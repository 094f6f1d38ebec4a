// SessionClient: the half of a Client that all of them have: the thread behind it, what it tells, rounds, barriers,
// leaving. What a round's weights and gradients are is the other half's.
//
// Kind:   owned by the application's thread.
// Fails:  as Client.
#pragma once

#include <capstan/client.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "worker/client/local_reduce.h"
#include "worker/session/session_loop.h"

namespace capstan::client {

// A thread that has joined as far as to have the job file. Fails: as Client::Connect.
struct Connection {
  std::unique_ptr<SessionLoop> loop;
  std::string job_file;
};
struct ProcessTraits {
  std::string machine;  // that this worker runs on, by a name that all workers there have; empty: it has no neighbours
  std::string metrics;  // host:port where this process serves them; empty: it serves none
  // Asked while the coordinator does not answer: whether to give up.
  std::function<bool()> stop_requested = [] { return false; };
};
Result<Connection> Connect(const ClientOptions& options, const ProcessTraits& traits = {});

// Keeps weights on the servers: pulls them and pushes gradients. Made of a job of any mode but allreduce. `local` adds
// up the pushes of this machine's workers; null: each pushes for itself. `stop_requested` is asked while it waits for
// them: an EndSlot then returns kStale.
std::unique_ptr<Client> CreateNetworkClient(
    Connection connection, std::unique_ptr<LocalReduce> local = nullptr,
    std::function<bool()> stop_requested = [] { return false; });

class SessionClient : public Client {
 public:
  const std::string& job_file() const override { return job_file_; }
  Result<std::optional<capstan::Work>> NextWork(Deadline deadline) override;
  Status Barrier(Deadline deadline) override;
  Status Leave(const std::string& reason) override;
  ClientCounters counters() const override { return loop_->counters(); }

 protected:
  explicit SessionClient(Connection connection)
      : loop_(std::move(connection.loop)), job_file_(std::move(connection.job_file)) {}
  // Leaves, and stops the thread. Every destructor begins with it: the thread may write into weights until then.
  void Close();

  SessionLoop& loop() { return *loop_; }
  // Kept: whoever calls out of order does not go on as if nothing had happened.
  Status Misuse(const std::string& what);
  Status Fail(Status status);
  const Status& failure() const { return failure_; }
  void Declared() { declared_ = true; }

  // One thing that the thread tells; kTimeout: none until the deadline.
  Status TakeEvent(Deadline deadline, const char* what);
  // What came until now, and whether the round goes on.
  Status LookUp();
  bool round_is_over() const { return void_ || finished_; }
  bool finished() const { return finished_; }
  const capstan::Work& work() const { return work_; }
  capstan::Work& work() { return work_; }
  std::uint64_t round() const { return round_; }

  virtual void GiveUpRound() = 0;  // another one is asked for
  virtual void BeginRound(const Session::WorkReady& ready) = 0;
  virtual void TakeBlock(BlockArrived&) {}
  virtual void TakeGroup(Session::GroupKnown&) {}

 private:
  void On(Session::JobFile&) {}
  void On(Session::Joined&) {}
  void On(Session::WorkReady& ready);
  void On(BlockArrived& block) { TakeBlock(block); }
  void On(Session::GroupKnown& group) { TakeGroup(group); }
  void On(Session::WorkVoid& ended) {
    if (has_work_ && ended.round == round_) void_ = true;
  }
  void On(Session::BarrierWaits& waits) { barrier_missing_ = std::move(waits.missing); }
  void On(Session::BarrierPassed&) { barrier_state_ = BarrierState::kPassed; }
  void On(Session::Finished&) { finished_ = ended_ = true; }
  void On(Session::Failed& failed) {
    failure_ = failed.status;
    ended_ = true;
  }

  std::unique_ptr<SessionLoop> loop_;
  const std::string job_file_;
  bool declared_ = false;
  bool finished_ = false, ended_ = false;
  Status failure_;

  enum class BarrierState { kNone, kWaiting, kPassed } barrier_state_ = BarrierState::kNone;
  std::string barrier_missing_;  // whom it waits for

  // The round.
  bool asked_ = false;  // for work, and it has not come yet
  bool has_work_ = false, void_ = false;
  std::uint64_t round_ = 0;
  capstan::Work work_;
};

}  // namespace capstan::client
