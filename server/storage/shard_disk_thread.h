// ShardDiskThread: the thread that carries out a shard's requests to its disk, in order.
//
// Kind:   owned by the shard's loop; only the loop's thread calls it.
// Limits: kWaitingMax requests whose results have not been taken; one more gets kBusy.
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

  // `wake` is called on the disk's thread whenever there is a result to take. The store must outlive this object, and
  // no other code may use it meanwhile. `lane`, for the trace, may be null.
  ShardDiskThread(ShardIndex shard, SnapshotStore* store, std::function<void()> wake,
                  monitoring::TraceLane* lane = nullptr);
  // Drops the running and waiting requests, except PersistIdentity requests, which are still carried out.
  ~ShardDiskThread();

  // Never waits. On failure `work` is unchanged.
  Status Submit(DiskWork&& work);
  std::optional<DiskResult> TakeResult() { return thread_.TakeResult(); }
  // Number of requests whose results have not been taken.
  std::size_t waiting() const { return thread_.waiting(); }

 private:
  std::vector<std::weak_ptr<std::atomic<bool>>> cancels_;  // cancel flags of snapshots that may still be written
  WorkThread<DiskWork, DiskResult> thread_;
};

}  // namespace capstan::server
