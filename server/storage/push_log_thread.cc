#include "server/storage/push_log_thread.h"

#include <pthread.h>

#include <chrono>
#include <string>
#include <utility>

namespace capstan::server {

namespace {

constexpr auto kLookAgainEvery = std::chrono::hours(1);

}  // namespace

PushLogThread::PushLogThread(ShardIndex shard, PushLog* log, std::function<void()> wake)
    : log_(log), wake_(std::move(wake)) {
  thread_ = std::thread([this, name = "log-" + std::to_string(shard)] {
    pthread_setname_np(pthread_self(), name.c_str());
    Run();
  });
}

PushLogThread::~PushLogThread() {
  stopping_.store(true);
  work_.Close();
  thread_.join();
}

Status PushLogThread::Submit(LogWork&& work) {
  if (waiting_ >= kWaitingMax) return {Code::kBusy, "the log has more work waiting than it may"};
  CAPSTAN_RETURN_IF_ERROR(work_.Push(std::move(work)));
  ++waiting_;
  return {};
}

std::optional<LogResult> PushLogThread::TakeResult() {
  std::optional<LogResult> result = results_.TryPop();
  if (result) --waiting_;
  return result;
}

void PushLogThread::Run() {
  while (!stopping_.load()) {
    std::optional<LogWork> work = work_.PopUntil(std::chrono::steady_clock::now() + kLookAgainEvery);
    if (!work || stopping_.load()) continue;
    const Status pushed = results_.Push(CarryOut(*work, log_));
    CAPSTAN_CHECK(pushed.ok());  // Submit has left room for it
    if (!stopping_.load()) wake_();
  }
}

}  // namespace capstan::server
