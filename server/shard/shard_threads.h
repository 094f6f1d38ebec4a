// ShardThreads: the threads that read and write a shard's snapshots and log, and work that they have not accepted yet.
//
// Kind:   part of ShardLoop; only the loop's thread calls it.
// Why:    a core returns its work in any amount, and a thread accepts only as much as its limit allows. The rest waits
//         here, in order.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "server/storage/push_log_thread.h"
#include "server/storage/shard_disk_thread.h"
#include "server/storage/snapshot_store.h"

namespace capstan::server {

class ShardThreads {
 public:
  struct Options {
    ShardIndex shard = 0;
    // The stores and the lane outlive this object.
    SnapshotStore* store = nullptr;
    PushLog* log = nullptr;                 // null: nothing is logged
    std::function<void()> wake;             // called on one of the threads when there is a result to take
    monitoring::TraceLane* lane = nullptr;  // of the disk's thread; null: no trace
  };

  explicit ShardThreads(const Options& options);

  // Submits the work to its thread, behind the work that still waits here.
  void SubmitDiskWork(std::vector<DiskWork> work);
  void SubmitLogWork(std::vector<LogWork> work);
  std::optional<DiskResult> TakeDiskResult() { return disk_.TakeResult(); }
  std::optional<LogResult> TakeLogResult() { return log_ ? log_->TakeResult() : std::nullopt; }

 private:
  ShardDiskThread disk_;
  std::deque<DiskWork> disk_work_;    // not yet accepted by disk_
  std::optional<PushLogThread> log_;  // empty where nothing is logged
  std::deque<LogWork> log_work_;      // not yet accepted by log_
};

}  // namespace capstan::server
