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
#include <thread>

#include "common/mailbox.h"
#include "server/storage/push_log.h"

namespace capstan::server {

class PushLogThread {
 public:
  static constexpr std::size_t kWaitingMax = 64;

  // `wake` is called on the log's thread whenever there is a result to take. The log outlives this object, and nobody
  // else uses it meanwhile.
  PushLogThread(ShardIndex shard, PushLog* log, std::function<void()> wake);
  PushLogThread(const PushLogThread&) = delete;
  PushLogThread& operator=(const PushLogThread&) = delete;
  // Gives up what is waiting: nobody was told that it is durable.
  ~PushLogThread();

  // Never waits. `work` is untouched when it is not taken.
  Status Submit(LogWork&& work);
  std::optional<LogResult> TakeResult();

 private:
  void Run();

  PushLog* log_;
  std::function<void()> wake_;
  Mailbox<LogWork> work_{kWaitingMax};
  Mailbox<LogResult> results_{kWaitingMax};
  std::size_t waiting_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace capstan::server
