// CoordinatorContact: when a reader sends the coordinator its next question, and whether the coordinator is silent.
//
// Kind:   a value; part of ReaderCore, a pure core.
// Why:    between two calls, a reader reads no messages. So this time does not count as the coordinator's silence.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

#include "common/base/types.h"

namespace capstan::client {

class CoordinatorContact {
 public:
  static constexpr Instant kAskEvery = std::chrono::milliseconds(500);
  static constexpr Instant kAskSoonest = std::chrono::milliseconds(50);
  static constexpr Instant kReaderStoodStill = std::chrono::seconds(1);

  void NoteMessage(Instant now) { heard_ = now; }
  // Call at every tick of the reader.
  void Tick(Instant now) {
    if (!heard_ || now - last_tick_ > kReaderStoodStill) heard_ = now;
    last_tick_ = now;
  }

  // Call when a question was sent: the next one is due in kAskEvery, unless AskNow or AskSoon is called.
  void Asked(Instant now) { next_question_ = now + kAskEvery; }
  void AskNow() { next_question_ = Instant{}; }
  void AskSoon(Instant now) { next_question_ = std::min(next_question_, now + kAskSoonest); }
  bool question_is_due(Instant now) const { return now >= next_question_; }

  // Whether, at the last tick, nothing had come from the coordinator for more than 2 * kAskEvery.
  bool silent() const { return heard_ && last_tick_ - *heard_ > 2 * kAskEvery; }
  // Returns whether the coordinator has been silent for `limit`; if so, the silence counts from now on again. Tick must
  // have been called before.
  bool TakeSilence(Instant limit, Instant now) {
    if (now - *heard_ < limit) return false;
    heard_ = now;
    return true;
  }

 private:
  Instant next_question_{};
  std::optional<Instant> heard_;
  Instant last_tick_{};
};

}  // namespace capstan::client
