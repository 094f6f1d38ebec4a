// CoordinatorLoop: the thread behind a Coordinator: owns its socket, clock, log and core, and the run's files.
//
// Kind:   made and destroyed by one thread; RequestStop and StatusJson from any. Its own thread owns everything else.
// Fails:  Start: an address that cannot be listened on, a run directory that cannot be written. Ends with an error when
//         the job fails.
// Why:    metrics.jsonl and final.safetensors are written by whoever knows of every step, so that a job started by hand
//         leaves the same files as a launched one.
//
// On a full disk it pauses (room_wait.h): while it waits, it takes no message, and its clock stands still.
//
// Life:   serving -> reading the final weights (when all steps are committed; then workers are told that the job is over)
//         -> farewell (shards are told to end) -> ended. Asked to stop, it takes a last snapshot and says farewell.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/base/mailbox.h"
#include "common/wire/transport.h"
#include "common/wire/zmq_transport.h"
#include "monitoring/registry.h"
#include "server/coordinator/coordinator_options.h"
#include "server/coordinator/roster.h"
#include "server/coordinator/step_log.h"
#include "server/net/outgoing.h"
#include "server/storage/coordinator_log.h"
#include "server/storage/room_wait.h"

namespace capstan::server {

struct CoordinatorLoopOptions {
  CoordinatorOptions coordinator;
  std::string listen;                   // host:port; port 0 takes a free one
  std::string advertise;                // host that others reach it by; empty: the host of `listen`
  std::string run_dir;                  // exists; gets metrics.jsonl and final.safetensors
  std::unique_ptr<CoordinatorLog> log;  // none: it lives and dies with the loop
  TransportOptions transport;
  // Called by the loop's thread.
  std::function<void(const Notice&)> on_notice;
  std::function<void(const Status&)> on_failed;   // with the outcome, before any member hears of it
  std::function<void(const Roster&)> on_members;  // whenever they are others, while the job goes on
  std::function<void()> on_end;                   // the last thing that it does
};

class Coordinator;
class FinalWeights;

class CoordinatorLoop {
 public:
  static Result<std::unique_ptr<CoordinatorLoop>> Start(CoordinatorLoopOptions options, monitoring::Registry* registry);
  ~CoordinatorLoop();  // stops and joins it
  CoordinatorLoop(const CoordinatorLoop&) = delete;
  CoordinatorLoop& operator=(const CoordinatorLoop&) = delete;

  // tcp://host:port where others reach it.
  const std::string& endpoint() const { return endpoint_; }
  // Ends the job after a last snapshot; asked a second time, at once. Members are told.
  void RequestStop();
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // Ok when all steps are committed and the final weights are written. Requires ended().
  const Status& outcome() const { return outcome_; }
  // An object for the status page.
  std::string StatusJson() const;

 private:
  enum class Phase { kServing, kReading, kFarewell, kEnded };

  CoordinatorLoop() = default;
  Instant Now() const;
  void Run();
  void HandleOne(PeerId from, const Message& message);
  void Tick(Instant now);
  std::size_t SendOut();
  void Abandon(const Status& why);
  void WriteRecords();
  void PublishMembers();
  void SeeState(Instant now);
  void ReadFinalWeights(Instant now);
  Status BeginFinalWeights();
  bool WaitsForFollowers(Instant now);
  void BeginFarewell(Status outcome);

  CoordinatorLoopOptions options_;
  TransportCounters counters_;
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<monitoring::TransportMetrics> transport_metrics_;
  std::shared_ptr<monitoring::CoordinatorMetrics> metrics_;
  std::optional<RoomWait> room_;
  std::unique_ptr<CoordinatorLog> log_;
  std::unique_ptr<Coordinator> core_;
  std::unique_ptr<Outgoing> outgoing_;
  std::optional<StepLog> step_log_;
  std::unique_ptr<FinalWeights> final_weights_;
  std::optional<Instant> followers_since_;  // waited for, once the final weights are written
  std::string endpoint_;

  Outbox out_;
  Phase phase_ = Phase::kServing;
  Instant farewell_began_{};
  Generation running_generation_;  // whose members on_members has had
  Roster members_;                 // told to on_members
  bool concluded_before_ = false;  // the job was done when this process began
  Status outcome_;
  Latest<std::string> status_;
  CoordinatorState published_ = CoordinatorState::kCollecting;  // in status_
  Instant next_status_{};
  std::atomic<int> stops_requested_{0};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace capstan::server
