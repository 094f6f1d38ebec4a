// WorkThread<Work, Done>: a thread that carries out work in order and returns the results.
//
// Kind:   owned by one thread; only that thread calls it.
// Limits: `waiting_max` pieces of work whose results have not been taken; one more gets kBusy.
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "common/base/mailbox.h"

namespace capstan::server {

template <class Work, class Done>
class WorkThread {
 public:
  // Carries out one piece of work, on the thread. Once `stopping` is set the owner waits for the thread's end, and the
  // task may drop work by returning nothing.
  using Task = std::function<std::optional<Done>(Work&& work, const std::atomic<bool>& stopping)>;

  // `name`: at most 15 bytes. `wake` is called on the thread whenever there is a result to take.
  WorkThread(std::string name, std::size_t waiting_max, Task task, std::function<void()> wake)
      : name_(std::move(name)), waiting_max_(waiting_max), task_(std::move(task)), wake_(std::move(wake)) {
    thread_ = std::thread([this] { Run(); });
  }
  WorkThread(const WorkThread&) = delete;
  WorkThread& operator=(const WorkThread&) = delete;
  // Waits for the thread's end. The task still receives the waiting work, and decides what to drop.
  ~WorkThread() {
    stopping_.store(true);
    work_.Close();
    thread_.join();
  }

  // Never waits. On failure `work` is unchanged.
  Status Submit(Work&& work) {
    if (waiting_ >= waiting_max_) return {Code::kBusy, name_ + " has more work waiting than it may"};
    CAPSTAN_RETURN_IF_ERROR(work_.Push(std::move(work)));
    ++waiting_;
    return {};
  }
  std::optional<Done> TakeResult() {
    std::optional<Done> result = results_.TryPop();
    if (result) --waiting_;
    return result;
  }
  // Number of pieces of work whose results have not been taken.
  std::size_t waiting() const { return waiting_; }

 private:
  static constexpr auto kLookAgainEvery = std::chrono::hours(1);

  void Run() {
    pthread_setname_np(pthread_self(), name_.c_str());
    while (true) {
      const bool closed = work_.closed();  // read before PopUntil: once closed, nothing more arrives
      std::optional<Work> work = work_.PopUntil(std::chrono::steady_clock::now() + kLookAgainEvery);
      if (!work && closed) return;
      if (!work) continue;
      std::optional<Done> result = task_(*std::move(work), stopping_);
      CAPSTAN_CHECK(result || stopping_.load());
      if (!result) continue;
      const Status pushed = results_.Push(*std::move(result));
      CAPSTAN_CHECK(pushed.ok());  // Submit has left room for it
      if (!stopping_.load()) wake_();
    }
  }

  const std::string name_;
  const std::size_t waiting_max_;
  const Task task_;
  const std::function<void()> wake_;
  Mailbox<Work> work_{waiting_max_};
  Mailbox<Done> results_{waiting_max_};
  std::size_t waiting_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace capstan::server
