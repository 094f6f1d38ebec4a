// LinePace: how many bytes may be unanswered on a line (one direction of a connection), and how long to wait for an
// answer before asking for it. Both follow from measured answer times.
//
// Kind:   value; the time comes in with each call.
// Limits: one message may always be sent. More messages must fit into the window, which has kLeastWindow to kMostWindow
//         bytes and at most kCountMax messages.
// Why:    a line that takes four seconds for a block has not lost the block. A fixed timeout would repeat messages that
//         are still in the sender's own queue, and each copy would delay the next answer.
//
// The window adapts to the line, as TCP's does. An answer that takes at most kQueue longer than the shortest one grows
// the window: by the answered bytes or, once the window has been too large, by about one message per window. A slower
// answer shrinks the window to what the line carries in the allowed time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/base/random.h"
#include "common/base/types.h"

namespace capstan {

class LinePace {
 public:
  static constexpr Instant kFirstWait = std::chrono::seconds(1);  // before an answer has been measured
  static constexpr Instant kLeastWait = std::chrono::milliseconds(200);
  static constexpr Instant kMostWait = std::chrono::seconds(2);  // a question costs next to nothing
  static constexpr Instant kQueue = std::chrono::milliseconds(500);
  static constexpr std::uint64_t kLeastWindow = 2u << 20, kMostWindow = 64u << 20;
  static constexpr std::size_t kCountMax = 256;

  struct Waits {
    Instant first, most;
  };
  // A message in flight that expects an answer. `number` counts the sender's messages on this line.
  struct Sent {
    std::uint64_t number = 0, bytes = 0;
    std::uint64_t in_flight = 0;  // bytes in flight when it was sent, its own included
    Instant at{};
  };

  // Senders with different keys get different jitter.
  explicit LinePace(std::uint64_t key = 0, Waits waits = {kFirstWait, kMostWait})
      : waits_(waits), random_(key, 0x11EFACE) {}

  // Whether another message of this size may be sent.
  bool HasRoom(std::uint64_t bytes) const { return count_ == 0 || (count_ < kCountMax && bytes_ + bytes <= window_); }
  std::size_t count() const { return count_; }
  std::uint64_t window() const { return window_; }
  Sent Send(std::uint64_t number, std::uint64_t bytes, Instant now);
  // Call when the message was answered. Measures the answer time and restarts the wait.
  void Answered(const Sent& sent, Instant now);
  // Call when the message was lost, or its answer is no longer needed. Measures no answer time.
  void Dropped(const Sent& sent);

  // Starts waiting for an answer, unless a wait is running. Send also does this.
  void Await(Instant now);
  // Whether an answer is overdue, so that the caller should ask about it.
  bool Due(Instant now) const { return due_ && now >= *due_; }
  // Call after a question about the overdue answer was sent. The next wait is twice as long, up to `Waits::most`.
  void Asked(Instant now);
  // Call when a message arrived that shows progress. Restarts the wait.
  void News(Instant now);
  // Stops waiting for an answer.
  void Rest() { due_.reset(); }
  Instant wait() const;  // how long to wait for an answer before a question is sent
  // The mean answer time, in which new answers weigh most; 0 before the first answer.
  Instant usual() const { return mean_.value_or(Instant{}); }

 private:
  void Start(Instant now);

  Waits waits_;
  RandomStream random_;
  std::size_t count_ = 0;
  std::uint64_t bytes_ = 0, window_ = kLeastWindow;
  bool full_once_ = false;  // the window was too large once: from then on it grows by about one message per window
  Instant shortest_{};
  std::optional<Instant> mean_;  // mean answer time
  Instant deviation_{};
  unsigned questions_ = 0;  // questions since the last progress
  std::optional<Instant> due_;
};

}  // namespace capstan
