// CoordinatorLine: when a session sends its Join and its Heartbeats, and how long the coordinator has been silent.
//
// Kind:   a value; part of Session's core.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "common/base/backoff.h"
#include "common/base/types.h"

namespace capstan::session {

class CoordinatorLine {
 public:
  static constexpr Instant kBeatEvery = std::chrono::seconds(1);
  static constexpr Instant kSilence = std::chrono::seconds(3);     // a silence that is reported
  static constexpr Instant kStoodStill = std::chrono::seconds(1);  // longer between two ticks: this process stood still

  // `key` separates the jitter of different sessions.
  explicit CoordinatorLine(std::uint64_t key) : join_retry_(key) {}

  void MessageArrived(Instant now) { last_message_ = now; }
  // Returns how long the coordinator has been silent. Times in which this process stood still do not count.
  Instant Tick(Instant now);
  // Whether the coordinator had been silent for more than kSilence at the last tick.
  bool silent() const { return last_message_ && last_tick_ - *last_message_ > kSilence; }

  // Makes the next Join due at once, and lets the waits between Joins start small again.
  void RestartJoin() {
    join_retry_.Restart();
    busy_.clear();
  }
  bool JoinIsDue(Instant now) const { return join_retry_.Due(now); }
  void JoinSent(Instant now) { join_retry_.Sent(now); }
  // Notes why the coordinator does not take the Join now.
  void NoteBusy(std::string why) { busy_ = std::move(why); }
  const std::string& busy() const { return busy_; }

  // Whether the regular Heartbeat is due. If so, the next one is due kBeatEvery from now.
  bool TakeBeat(Instant now);

 private:
  Backoff join_retry_;
  std::string busy_;
  std::optional<Instant> last_message_;
  Instant last_tick_{};
  Instant next_beat_{};
};

}  // namespace capstan::session
