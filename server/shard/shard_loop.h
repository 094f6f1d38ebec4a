// ShardLoop: the thread that drives a Shard; owns the socket, the clock and the core.
//
// Kind:   created and destroyed by one thread; its own thread runs the core. Any thread may call RequestStop,
//         StatusJson and ended.
// Limits: those of TransportOptions and Outgoing.
// Fails:  Start: an address that it cannot listen on or connect to, or a directory that it cannot write. The thread
//         ends with an error if the coordinator refuses the shard or is silent for longer than the limits below, or if
//         the shard's identity cannot be stored.
// Why:    the core has no sockets and no clock, so the simulated cluster runs the same core.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "common/flight/flight_notes.h"
#include "common/wire/notice_limit.h"
#include "common/wire/transport.h"
#include "monitoring/registry.h"
#include "server/net/coordinator_watch.h"
#include "server/net/loop_socket.h"
#include "server/net/request_metrics.h"
#include "server/shard/neighbours.h"
#include "server/shard/shard_options.h"
#include "server/shard/shard_threads.h"
#include "server/storage/push_log.h"
#include "server/storage/snapshot_store.h"

namespace capstan::server {

struct ShardLoopOptions {
  ShardOptions shard;                    // `incarnation`: at least this; the loop sets what depends on store and socket
  std::unique_ptr<SnapshotStore> store;  // the shard's directory; null: in memory
  std::unique_ptr<PushLog> log;          // with durable acknowledgements; null: in memory
  std::string listen;                    // host:port, where port 0 takes a free one, or ipc:///PATH
  std::string advertise;                 // host under which others reach it; empty: the host of `listen`
  std::string coordinator;               // its address
  double join_seconds = 60;              // until the first message of the coordinator
  double stall_seconds = 0;              // between two messages of the coordinator; 0: no limit
  double report_seconds = 5;             // between two log lines about one wait
  bool shared_memory = true;             // at a Unix socket: peers read weights where they lie, and are read so
  TransportOptions transport;
  monitoring::Trace* trace = nullptr;                  // outlives the loop; null: no trace
  FlightLane* flight = nullptr;                        // outlives the loop; null: nothing is recorded
  std::function<void(const Notice&)> on_notice;        // called on the loop's thread; the outcome is not reported here
  std::function<void(const std::string&)> on_waiting;  // as on_notice: the coordinator is silent, or answers again
  std::function<void()> on_end;                        // called last
};

class Shard;

class ShardLoop {
 public:
  static Result<std::unique_ptr<ShardLoop>> Start(ShardLoopOptions options, monitoring::Registry* registry);
  ~ShardLoop();  // stops and joins the thread
  ShardLoop(const ShardLoop&) = delete;
  ShardLoop& operator=(const ShardLoop&) = delete;

  // The endpoint at which other processes reach this shard.
  const std::string& endpoint() const { return socket_->endpoint(); }
  void RequestStop();
  // Returns a summary of the shard as a JSON object, for the status page. Any thread may call it.
  std::string StatusJson() const;
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // Why the loop ended; ok after RequestStop or the coordinator's Shutdown. Requires ended().
  const Status& outcome() const { return outcome_; }

 private:
  explicit ShardLoop(ShardLoopOptions options);
  // Opens the socket, begins an incarnation, and makes the core and the threads for its disk.
  Status Open(monitoring::Registry* registry);
  void Run();
  void HandleOne(PeerId from, const Message& message);
  void Tick(Instant now);
  void SendOut();
  void SubmitDiskWork();
  void TakeDiskResults(Instant now);
  // Hands results of the log thread to the core. Returns whether there were any.
  bool TakeLogResults(Instant now);
  Result<ShardIdentity> BeginIncarnation();
  bool Over() const;

  ShardLoopOptions options_;
  std::unique_ptr<LoopSocket> socket_;
  std::optional<Neighbours> neighbours_;
  std::shared_ptr<monitoring::ShardMetrics> metrics_;
  std::unique_ptr<Shard> core_;
  std::optional<ShardThreads> threads_;
  std::optional<ShardTimes> times_;
  PeerId coordinator_;

  Outbox out_;
  Instant busy_{};  // time spent on messages
  FlightNotes flight_;
  NoticeLimit notices_;
  std::optional<CoordinatorWatch> watch_;  // set while the thread runs
  Status outcome_;
  std::atomic<bool> stop_requested_{false}, ended_{false};
  std::thread thread_;
};

}  // namespace capstan::server
