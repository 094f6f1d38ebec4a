// ClientBase: the base of all Client implementations. It runs the session's thread and handles its events, rounds,
// barriers, collective calls and leaving. Derived classes handle weights and gradients.
//
// Kind:   owned by the application's thread.
// Fails:  as Client does.
#pragma once

#include <capstan/client.h>
#include <capstan/collectives.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "worker/client/machine_reduce.h"
#include "worker/client/team_calls.h"
#include "worker/session/session_loop.h"

namespace capstan::client {

// A session's thread that has received the job file. Connect fails as Client::Connect does.
struct Connection {
  std::unique_ptr<session::SessionLoop> loop;
  std::string job_file;
  std::shared_ptr<SharedMemory> memory;  // of gradients, for servers of this machine; null or closed: they are sent
};
struct ProcessTraits {
  // Name of this worker's machine, the same for all workers on it; empty: this worker adds up nothing with others.
  std::string machine;
  std::string metrics;  // host:port where this process serves metrics; empty: none
  // Connect polls it while the coordinator does not answer, and gives up once it returns true.
  std::function<bool()> stop_requested = [] { return false; };
  // Returns how long this process has read and prepared samples; null: it does not measure this.
  std::function<double()> input_seconds = nullptr;
  FlightLane* flight = nullptr;  // of the session's thread, which it outlives; null: nothing is recorded
};
Result<Connection> Connect(const ClientOptions& options, const ProcessTraits& traits = {});

// Creates the client for all modes except allreduce: it pulls weights and pushes gradients. `machine` adds up the
// pushes of this machine's workers; null: each worker pushes for itself. EndSlot polls `stop_requested` while it waits
// for other workers of the machine, and returns kStale once it is true.
std::unique_ptr<Client> CreateParameterServerClient(
    Connection connection, std::unique_ptr<MachineReduce> machine = nullptr,
    std::function<bool()> stop_requested = [] { return false; });

class ClientBase : public Client {
 public:
  const std::string& job_file() const override { return job_file_; }
  Result<std::optional<capstan::Work>> NextWork(Deadline deadline) override;
  Status Barrier(Deadline deadline) override;
  Collectives& collectives() override { return team_; }
  Status Leave(const std::string& reason) override;
  ClientCounters counters() const override { return loop_->counters(); }
  // Only a job whose optimizer stays in the program has these.
  Status TakeVersion() override;
  const float* mean_gradient() const override { return nullptr; }
  Status KeepVersion(const float* weights, std::string_view state) override;

 protected:
  explicit ClientBase(Connection connection);
  // Leaves the job and stops the session's thread. Every derived destructor must call it, because until then the thread
  // may write into the weights.
  void Close();

  session::SessionLoop& loop() { return *loop_; }
  const std::shared_ptr<SharedMemory>& memory() const { return memory_; }
  // Misuse and Fail record a failure; later calls fail with it, too.
  Status Misuse(const std::string& what);
  Status Fail(Status status);
  const Status& failure() const { return failure_; }
  void Declared() { declared_ = true; }

  // Waits for one event of the session's thread and handles it; kTimeout: none came until the deadline. `what`: for the
  // message. `kind`: as which the time counts.
  Status TakeEvent(Deadline deadline, const char* what, session::WaitKind kind = session::WaitKind::kOther);
  // Handles all events that have come, without waiting. kStale: the round is over.
  Status LookUp();
  bool round_is_over() const { return void_ || finished_; }
  bool finished() const { return finished_; }
  const capstan::Work& work() const { return work_; }
  capstan::Work& work() { return work_; }
  std::uint64_t round() const { return round_; }

  virtual void GiveUpRound() = 0;  // called when another round is requested
  virtual void BeginRound(const session::Session::WorkReady& ready) = 0;
  virtual void TakeBlock(session::BlockArrived&) {}
  virtual void TakeGroup(session::Session::GroupKnown&) {}

 private:
  void On(session::Session::JobFile&) {}
  void On(session::Session::Joined&) {}
  void On(session::Session::WorkReady& ready);
  void On(session::BlockArrived& block) { TakeBlock(block); }
  void On(session::Session::GroupKnown& group) { TakeGroup(group); }
  void On(session::Session::WorkVoid& ended) {
    if (has_work_ && ended.round == round_) void_ = true;
  }
  void On(session::Session::BarrierWaits& waits) { barrier_missing_ = std::move(waits.missing); }
  void On(session::Session::BarrierPassed&) { barrier_state_ = BarrierState::kPassed; }
  void On(session::TeamFormed& formed) { team_.On(formed); }
  void On(session::TeamPieces& pieces) { team_.On(pieces); }
  void On(session::TeamWaits& waits) { team_.On(waits); }
  void On(session::TeamFailed& failed) { team_.On(failed); }
  void On(session::Session::Finished&) { finished_ = ended_ = true; }
  void On(session::Session::Failed& failed) {
    failure_ = failed.status;
    ended_ = true;
  }

  std::unique_ptr<session::SessionLoop> loop_;
  const std::string job_file_;
  const std::shared_ptr<SharedMemory> memory_;
  bool declared_ = false;
  bool finished_ = false, ended_ = false;
  Status failure_;

  enum class BarrierState { kNone, kWaiting, kPassed } barrier_state_ = BarrierState::kNone;
  std::string barrier_missing_;  // names of missing workers
  TeamCalls team_;

  // The current round.
  bool asked_ = false;  // work was requested and has not come yet
  bool has_work_ = false, void_ = false;
  std::uint64_t round_ = 0;
  capstan::Work work_;
};

}  // namespace capstan::client
