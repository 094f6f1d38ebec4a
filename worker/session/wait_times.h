// WaitTimes: how long the application has waited for what a session fetches.
//
// Kind:   shared; the application's thread adds, and any thread reads.
// Limits: no lock, no allocation.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "common/wire/messages/membership.h"

namespace capstan::session {

// kExchange: weights, or sums of gradients, within a step. kCommit: the next step.
enum class WaitKind : std::uint8_t { kOther, kExchange, kCommit };

class WaitTimes {
 public:
  void Add(WaitKind kind, std::chrono::nanoseconds time) {
    if (kind == WaitKind::kOther) return;
    std::atomic<std::uint64_t>& sum = kind == WaitKind::kExchange ? exchange_ns_ : commit_ns_;
    sum.fetch_add(static_cast<std::uint64_t>(time.count()), std::memory_order_relaxed);
  }
  TimeSpent Read() const {
    const auto all = std::chrono::steady_clock::now() - began_;
    return {static_cast<std::uint64_t>(all / std::chrono::microseconds(1)), 0, exchange_ns_.load() / 1000,
            commit_ns_.load() / 1000};
  }

 private:
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::atomic<std::uint64_t> exchange_ns_{0}, commit_ns_{0};
};

// Adds the time from its construction to its end.
class WaitTimer {
 public:
  WaitTimer(WaitTimes* times, WaitKind kind) : times_(times), kind_(kind) {}
  ~WaitTimer() { times_->Add(kind_, std::chrono::steady_clock::now() - began_); }
  WaitTimer(const WaitTimer&) = delete;
  WaitTimer& operator=(const WaitTimer&) = delete;

 private:
  WaitTimes* const times_;
  const WaitKind kind_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace capstan::session
