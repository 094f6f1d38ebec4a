// ShardDiskThread: the thread that carries out what a shard asks of its disk, in order.
//
// Kind:   owned by the shard's loop, whose thread alone calls it.
// Limits: kWaitingMax pieces of work whose results have not been taken; one more gets kBusy.
// Why:    a shard answers while gigabytes are written or read.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "monitoring/trace.h"
#include "server/storage/shard_disk.h"
#include "server/storage/snapshot_store.h"
#include "server/storage/work_thread.h"

namespace capstan::server {

class ShardDiskThread {
 public:
  static constexpr std::size_t kWaitingMax = 1024;

  // `wake` is called on the disk's thread whenever there is a result to take. The store outlives this object, and
  // nobody else uses it meanwhile.
  // `lane`, for what is written and read, may be null.
  ShardDiskThread(ShardIndex shard, SnapshotStore* store, std::function<void()> wake,
                  monitoring::TraceLane* lane = nullptr);
  // Gives up what is being written, read or waiting, except lives: those that were handed over are remembered.
  ~ShardDiskThread();

  // Never waits. `work` is untouched when it is not taken.
  Status Submit(DiskWork&& work);
  std::optional<DiskResult> TakeResult() { return thread_.TakeResult(); }
  // Work whose result has not been taken.
  std::size_t waiting() const { return thread_.waiting(); }

 private:
  std::vector<std::weak_ptr<std::atomic<bool>>> cancels_;  // of snapshots that may still be written
  WorkThread<DiskWork, DiskResult> thread_;
};

}  // namespace capstan::server
