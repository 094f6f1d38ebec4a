// PushLogThread: the thread that carries out what a shard asks of its log, in order.
//
// Kind:   owned by the shard's loop, whose thread alone calls it.
// Limits: kWaitingMax pieces of work whose results have not been taken; one more gets kBusy.
// Why:    an append is waited for by workers: it is not to stand behind a snapshot that is being written.
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

  // `wake` is called on the log's thread whenever there is a result to take. The log outlives this object, and nobody
  // else uses it meanwhile. What waits when it ends is given up: nobody was told that it is durable.
  PushLogThread(ShardIndex shard, PushLog* log, std::function<void()> wake)
      : thread_(
            "log-" + std::to_string(shard), kWaitingMax,
            [log](LogWork&& work, const std::atomic<bool>& stopping) -> std::optional<LogResult> {
              if (stopping.load()) return std::nullopt;
              return CarryOut(work, log);
            },
            std::move(wake)) {}

  // Never waits. `work` is untouched when it is not taken.
  Status Submit(LogWork&& work) { return thread_.Submit(std::move(work)); }
  std::optional<LogResult> TakeResult() { return thread_.TakeResult(); }

 private:
  WorkThread<LogWork, LogResult> thread_;
};

}  // namespace capstan::server
