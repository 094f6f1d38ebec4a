// CoordinatorLoop: the thread that drives a Coordinator. It owns the core, the socket, the run's files and the clock.
//
// Kind:   created and destroyed by one thread; any thread may call RequestStop, ended, StatusJson and
//         HistoryJson. The loop's own thread owns everything else.
// Fails:  Start: an address that it cannot listen on, a run directory that it cannot write, or a log that the job file
//         cannot continue. outcome() is an error if the job failed or was stopped.
// Why:    the process that knows every step writes metrics.jsonl and final.safetensors, so a job started by hand leaves
//         the same files as a launched one.
//
// On a full disk the loop pauses (room_wait.h): while it waits for room, it takes no message, and its
// clock stands still.
//
// Life:   serving (until the job fails or is stopped, or all steps are committed and Completion is done) -> closing
//         (members learn the outcome, shards are asked to end) -> ended. After RequestStop the job takes a last
//         snapshot before the loop closes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "common/flight/flight_notes.h"
#include "common/wire/notice_limit.h"
#include "common/wire/transport.h"
#include "monitoring/registry.h"
#include "server/coordinator/completion.h"
#include "server/coordinator/coordinator_options.h"
#include "server/coordinator/roster_feed.h"
#include "server/coordinator/run_files.h"
#include "server/coordinator/status_feed.h"
#include "server/net/loop_socket.h"
#include "server/storage/coordinator_log.h"

namespace capstan::server {

struct CoordinatorLoopOptions {
  CoordinatorOptions coordinator;
  std::string listen;                   // host:port, where port 0 takes a free one, or ipc:///PATH
  std::string advertise;                // host under which others reach it; empty: the host of `listen`
  std::string run_dir;                  // exists; receives metrics.jsonl and final.safetensors
  std::unique_ptr<CoordinatorLog> log;  // null: in memory
  TransportOptions transport;
  FlightLane* flight = nullptr;  // outlives the loop; null: nothing is recorded
  // These are called on the loop's thread.
  std::function<void(const Notice&)> on_notice;
  std::function<void(const Status&)> on_failed;   // with an outcome that is an error, also after a stop
  std::function<void(const Roster&)> on_members;  // after a change of members, while the job goes on
  std::function<void()> on_end;                   // called last
};

class Coordinator;

class CoordinatorLoop {
 public:
  static Result<std::unique_ptr<CoordinatorLoop>> Start(CoordinatorLoopOptions options, monitoring::Registry* registry);
  ~CoordinatorLoop();  // ends the job at once, and joins the thread
  CoordinatorLoop(const CoordinatorLoop&) = delete;
  CoordinatorLoop& operator=(const CoordinatorLoop&) = delete;

  // The endpoint at which other processes reach the coordinator.
  const std::string& endpoint() const { return socket_->endpoint(); }
  // Ends the job after a last snapshot; the second call ends it at once. Members are notified.
  void RequestStop();
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // Ok when all steps are committed and the final weights are written. Requires ended().
  const Status& outcome() const { return outcome_; }
  // Returns the state of the job as a JSON object for the status page.
  std::string StatusJson() const { return status_.Read(); }
  // Returns the figures of its steps and its events, as a JSON object for the curves of that page.
  std::string HistoryJson() const { return status_.HistoryJson(); }

 private:
  enum class Phase { kServing, kClosing, kEnded };

  explicit CoordinatorLoop(CoordinatorLoopOptions options);
  Status Open(monitoring::Registry* registry);
  void Run();
  void HandleOne(PeerId from, const Principal& sender, const Message& message);
  void AuditRefusedKeys();
  void Tick(Instant now);
  std::size_t SendOut();
  void WriteRecords();
  void NoteState();
  void SeeState(Instant now);
  void BeginClosing(Status outcome);
  bool stop_requested() const { return stops_requested_.load() > 0; }

  CoordinatorLoopOptions options_;
  std::unique_ptr<LoopSocket> socket_;
  std::shared_ptr<monitoring::CoordinatorMetrics> metrics_;
  std::unique_ptr<RunFiles> files_;
  std::unique_ptr<Coordinator> core_;
  std::optional<Completion> completion_;
  RosterFeed members_;
  StatusFeed status_;

  Outbox out_;
  FlightNotes flight_;
  NoticeLimit notices_;
  std::uint64_t snapshots_seen_ = 0;  // of those that metrics_ counts
  Phase phase_ = Phase::kServing;
  Instant closing_began_{};
  bool concluded_before_ = false;  // the job was already done when this process began
  Status outcome_;
  std::atomic<int> stops_requested_{0};
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace capstan::server
