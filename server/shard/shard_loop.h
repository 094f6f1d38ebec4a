// ShardLoop: the thread behind a Shard: owns its socket, clock and core.
//
// Kind:   made and destroyed by one thread; RequestStop from any. Its own thread owns everything else.
// Limits: of TransportOptions and Outgoing.
// Fails:  Start: an address that cannot be listened on or connected to. Ends with an error when the coordinator refuses
//         the shard or is not heard for the limits below.
// Why:    the core knows no sockets and no time, so the simulated cluster runs the same one.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "common/wire/transport.h"
#include "common/wire/zmq_transport.h"
#include "monitoring/registry.h"
#include "server/net/coordinator_watch.h"
#include "server/net/outgoing.h"
#include "server/net/request_metrics.h"
#include "server/shard/shard_options.h"
#include "server/storage/push_log_thread.h"
#include "server/storage/shard_disk_thread.h"
#include "server/storage/snapshot_store.h"

namespace capstan::server {

struct ShardLoopOptions {
  ShardOptions shard;                    // its coordinator, endpoint, life and parts are filled in by the loop
  std::unique_ptr<SnapshotStore> store;  // its directory; none: it lives and dies with the loop
  std::unique_ptr<PushLog> log;          // where acknowledgements are durable; none: it lives and dies with the loop
  std::string listen;                    // host:port; port 0 takes a free one
  std::string advertise;                 // host that others reach it by; empty: the host of `listen`
  std::string coordinator;               // host:port
  double join_seconds = 60;              // until the coordinator is heard first
  double stall_seconds = 0;              // between two signs of its life; 0: no limit
  double report_seconds = 5;             // from one line of a wait for it to the next
  TransportOptions transport;
  monitoring::Trace* trace = nullptr;                  // outlives the loop; null: none is kept
  std::function<void(const Notice&)> on_notice;        // called by the loop's thread; the outcome is not among them
  std::function<void(const std::string&)> on_waiting;  // as on_notice: that the coordinator is silent, or answers
  std::function<void()> on_end;                        // the last thing that it does
};

class Shard;

class ShardLoop {
 public:
  static Result<std::unique_ptr<ShardLoop>> Start(ShardLoopOptions options, monitoring::Registry* registry);
  ~ShardLoop();  // stops and joins it
  ShardLoop(const ShardLoop&) = delete;
  ShardLoop& operator=(const ShardLoop&) = delete;

  // tcp://host:port where others reach this shard.
  const std::string& endpoint() const { return endpoint_; }
  void RequestStop();
  // What it holds, an object for the status page; any thread.
  std::string StatusJson() const;
  bool ended() const { return ended_.load(std::memory_order_acquire); }
  // Why it ended; ok when it was told to. Requires ended().
  const Status& outcome() const { return outcome_; }

 private:
  ShardLoop() = default;
  void Run();
  void HandleOne(PeerId from, const Message& message);
  void CountBatch(int messages);
  void Tick(Instant now);
  void SendOut();
  void TakeDiskResults(Instant now);
  // Whether there were any.
  bool TakeLogResults(Instant now);
  void SubmitWork();
  Result<ShardLife> BeginLife();
  PeerId ConnectTo(const std::string& endpoint);
  void LeaveNeighbours();
  bool Over() const;

  ShardLoopOptions options_;
  TransportCounters counters_;
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<monitoring::TransportMetrics> transport_metrics_;
  std::shared_ptr<monitoring::ShardMetrics> metrics_;
  std::unique_ptr<Shard> core_;
  std::unique_ptr<Outgoing> outgoing_;
  std::unique_ptr<ShardDiskThread> disk_;
  std::deque<DiskWork> disk_work_;            // not yet taken by disk_
  std::unique_ptr<PushLogThread> log_;        // none where nothing is logged
  std::deque<LogWork> log_work_;              // not yet taken by log_
  std::map<std::string, PeerId> neighbours_;  // other shards, by endpoint, while a snapshot is loaded from them
  std::unique_ptr<ShardTimes> times_;
  PeerId coordinator_;
  std::string endpoint_;

  Outbox out_;
  std::optional<CoordinatorWatch> watch_;  // while it runs
  std::uint64_t bytes_seen_ = 0;           // received up to the last look
  Status outcome_;
  std::atomic<bool> stop_requested_{false}, ended_{false};
  std::thread thread_;
};

}  // namespace capstan::server
