// PushLogThread: the thread that carries out a shard's requests to its log, in order.
//
// Kind:   owned by the shard's loop; only the loop's thread calls it.
// Limits: kWaitingMax requests whose results have not been taken; one more gets kBusy.
// Why:    workers wait for an append, so it must not queue behind the writing of a snapshot.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "server/storage/push_log.h"
#include "server/storage/work_thread.h"

namespace capstan::server {

class PushLogThread {
 public:
  static constexpr std::size_t kWaitingMax = 64;

  // `wake` is called on the log's thread whenever there is a result to take. The log must outlive this object, and no
  // other code may use it meanwhile. The destructor drops requests that still wait: none of them was acknowledged.
  PushLogThread(ShardIndex shard, PushLog* log, std::function<void()> wake)
      : thread_(
            "log-" + std::to_string(shard), kWaitingMax,
            [log](LogWork&& work, const std::atomic<bool>& stopping) -> std::optional<LogResult> {
              if (stopping.load()) return std::nullopt;
              return Execute(work, log);
            },
            std::move(wake)) {}

  // Never waits. On failure `work` is unchanged.
  Status Submit(LogWork&& work) { return thread_.Submit(std::move(work)); }
  std::optional<LogResult> TakeResult() { return thread_.TakeResult(); }

 private:
  WorkThread<LogWork, LogResult> thread_;
};

}  // namespace capstan::server
