// Ending: in which order the processes of a job end, and how long each may take.
//
// Kind:   a value; a pure core, whose owner carries its orders out.
// Limits: kLastSnapshotSeconds for the coordinator, which takes a last snapshot when it is asked to end; kStopSeconds for
//         all others, also for processes of ours after the job's own end. The user's programs then have the time that
//         they are given.
// Why:    a stop leaves everything on disk where it can, and never waits for somebody who does not answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace capstan::cli {

class Ending {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds kStopSeconds{10}, kLastSnapshotSeconds{70};

  // kLastSnapshot: tell the coordinator to end. kWait: the job is done, and they end by themselves. kEndOurs, kKillOurs:
  // processes of ours have taken too long for that, while the user's programs may go on. kEnd: tell all to end. kKill: kill
  // those that are left.
  enum class Order : std::uint8_t { kNone, kLastSnapshot, kWait, kEndOurs, kKillOurs, kEnd, kKill };
  struct Situation {
    int stops = 0;  // times that the job was asked to stop
    bool failed = false;
    bool coordinator_ended = false;
  };

  // `patience`: for processes that end by themselves after the job.
  explicit Ending(std::chrono::duration<double> patience) : patience_(patience) {}

  // What is to be done now. Each order is given once.
  Order Next(const Situation& situation, TimePoint now);

  bool begun() const { return phase_ != Phase::kNone; }
  // Nobody is started any more, and nobody's end is news.
  bool stopping() const { return begun() && phase_ != Phase::kLastSnapshot; }
  // Whether processes were told to end although the job was done, because they took too long.
  bool lost_patience() const { return lost_patience_; }
  // While processes may end by themselves after the job: until when.
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
