// RestartBudget: when a process that died is restarted, and whether it has died too often.
//
// Kind:   a value; the caller passes the time.
// Limits: `max` restarts within kWindow. The wait before a restart doubles from kFirstWait to kLongestWait, and starts
//         over if the job has done a step since the process was last started.
// Why:    a job that runs for weeks survives any number of deaths that are far apart, and a process that dies again and
//         again soon ends the job.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

namespace capstan::cli {

class RestartBudget {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class LastRun : std::uint8_t { kOfUse, kOfNoUse };  // whether the job did steps since the process's last start
  static constexpr std::chrono::hours kWindow{1};
  static constexpr std::chrono::milliseconds kFirstWait{100}, kLongestWait{30'000};

  explicit RestartBudget(std::uint32_t max) : max_(max) {}

  // Returns when to restart a process that died at `now`; nothing if it has died too often.
  std::optional<TimePoint> Next(TimePoint now, LastRun last_run);
  // The number of restarts within the window that ended with the last call of Next.
  std::size_t count() const { return restarts_.size(); }
  std::uint32_t max() const { return max_; }

 private:
  std::uint32_t max_;
  std::chrono::milliseconds wait_ = kFirstWait;
  std::deque<TimePoint> restarts_;  // within the window, oldest first
};

}  // namespace capstan::cli
