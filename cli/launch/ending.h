// Ending: the order in which the processes of a job end, and the time that each may take.
//
// Kind:   a value; it only decides. The owner passes the time and carries out the orders.
// Limits: kLastSnapshotSeconds for the coordinator, which takes a last snapshot when it is asked to end. kStopSeconds
//         for all others. After a job that is done, processes of capstan's own have kStopSeconds to end by themselves,
//         and the user's programs have `patience`.
// Why:    a stop saves the job's state if it can, and waits only so long for a process that does not answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace capstan::cli {

class Ending {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kStopSeconds{10}, kLastSnapshotSeconds{70};

  // kLastSnapshot: ask the coordinator to end. kWait: the job is done; wait until the processes end by themselves.
  // kEndOurs, kKillOurs: our processes take too long to end by themselves; ask them to end, and later kill them, while
  // the user's programs may continue. kEnd: ask all processes to end. kKill: kill those that are left.
  enum class Order : std::uint8_t { kNone, kLastSnapshot, kWait, kEndOurs, kKillOurs, kEnd, kKill };
  struct Situation {
    int stops = 0;  // how often the user asked the job to stop
    bool failed = false;
    bool coordinator_ended = false;
  };

  // `patience`: how long processes may take to end by themselves after the job.
  explicit Ending(std::chrono::duration<double> patience) : patience_(patience) {}

  // Returns the order to carry out now. Each order except kNone is given once.
  Order Next(const Situation& situation, TimePoint now);

  bool begun() const { return phase_ != Phase::kNone; }
  // Whether the end has begun and no last snapshot is waited for: no process is started any more, not even again.
  bool stopping() const { return begun() && phase_ != Phase::kLastSnapshot; }
  // Whether processes were asked to end although the job was done, because they took too long.
  bool lost_patience() const { return lost_patience_; }
  // Returns until when processes may end by themselves after the job; nothing unless this wait is going on.
  std::optional<TimePoint> waits_until() const {
    return phase_ == Phase::kWaiting ? std::optional(deadline_) : std::nullopt;
  }

 private:
  enum class Phase : std::uint8_t { kNone, kLastSnapshot, kWaiting, kTold, kKilled };

  Order TellAll(TimePoint now);
  Order TellOurs(TimePoint now);

  const std::chrono::duration<double> patience_;
  Phase phase_ = Phase::kNone;
  TimePoint deadline_{};
  TimePoint ours_deadline_{};
  Order next_for_ours_ = Order::kEndOurs;
  bool lost_patience_ = false;
};

}  // namespace capstan::cli
