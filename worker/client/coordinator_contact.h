// CoordinatorContact: when a reader sends the coordinator its next question, and whether the coordinator is silent.
//
// Kind:   a value; part of ReaderCore, a pure core.
// Why:    between two calls of a reader no messages are read, so that time does not count as the coordinator's silence.
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

  // A question was sent: the next one is due in kAskEvery, unless it is needed earlier.
  void Asked(Instant now) { next_question_ = now + kAskEvery; }
  void AskNow() { next_question_ = Instant{}; }
  void AskSoon(Instant now) { next_question_ = std::min(next_question_, now + kAskSoonest); }
  bool question_is_due(Instant now) const { return now >= next_question_; }

  // Whether the last tick found a question unanswered.
  bool silent() const { return heard_ && last_tick_ - *heard_ > 2 * kAskEvery; }
  // Requires a tick. Returns whether the silence has reached the limit; if so, the next one gets the full limit again.
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
