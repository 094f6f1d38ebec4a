#include "cli/launch/ending.h"

#include <utility>

namespace capstan::cli {

Ending::Order Ending::Next(const Situation& situation, TimePoint now) {
  switch (phase_) {
    case Phase::kNone:
      if (situation.failed) return TellAll(now);
      if (situation.coordinator_ended) {
        phase_ = Phase::kWaiting;
        deadline_ = now + std::chrono::duration_cast<TimePoint::duration>(patience_);
        ours_deadline_ = now + kStopSeconds;
        return Order::kWait;
      }
      if (situation.stops == 0) return Order::kNone;
      phase_ = Phase::kLastSnapshot;
      deadline_ = now + kLastSnapshotSeconds;
      return Order::kLastSnapshot;
    case Phase::kLastSnapshot:
      if (!situation.coordinator_ended && situation.stops < 2 && now < deadline_) return Order::kNone;
      return TellAll(now);
    case Phase::kWaiting:
      if (!situation.failed && situation.stops == 0 && now < deadline_) return TellOurs(now);
      lost_patience_ = now >= deadline_;
      return TellAll(now);
    case Phase::kTold:
      if (situation.stops < 2 && now < deadline_) return Order::kNone;
      phase_ = Phase::kKilled;
      return Order::kKill;
    case Phase::kKilled: break;
  }
  return Order::kNone;
}

Ending::Order Ending::TellAll(TimePoint now) {
  phase_ = Phase::kTold;
  deadline_ = now + kStopSeconds;
  return Order::kEnd;
}

// Returns kEndOurs when our processes have taken too long to end, and kKillOurs kStopSeconds later, each once.
Ending::Order Ending::TellOurs(TimePoint now) {
  if (now < ours_deadline_) return Order::kNone;
  ours_deadline_ = next_for_ours_ == Order::kEndOurs ? now + kStopSeconds : TimePoint::max();
  return std::exchange(next_for_ours_, Order::kKillOurs);
}

}  // namespace capstan::cli
