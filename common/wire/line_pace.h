// LinePace: how much may be unanswered on one direction of a line, and how long an answer may take before it is asked
// for. Both follow from how long answers have taken.
//
// Kind:   value; the time comes in with each call.
// Limits: one message may always be sent; more must fit into the window of kLeastWindow to kMostWindow bytes, and
//         kCountMax messages.
// Why:    a line that carries a block in four seconds is not a line that has lost it. A fixed wait repeats what still
//         lies in the sender's own queue, and each copy delays the next answer.
//
// The window follows the line, as TCP's does: it grows by what is answered within kQueue of the shortest answer seen,
// and shrinks to what the line carries in that time. A slow line has two blocks in its queue, a fast one what is allowed.
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
  // A message under way that an answer is expected to. `number`: of the sender's messages over this line, in order.
  struct Sent {
    std::uint64_t number = 0, bytes = 0;
    std::uint64_t ahead = 0;  // bytes under way with it, its own included
    Instant at{};
  };

  // `key` separates the jitter of different senders.
  explicit LinePace(std::uint64_t key = 0, Waits waits = {kFirstWait, kMostWait})
      : waits_(waits), random_(key, 0x11EFACE) {}

  // Whether another message of so many bytes may be sent.
  bool HasRoom(std::uint64_t bytes) const { return count_ == 0 || (count_ < kCountMax && bytes_ + bytes <= window_); }
  std::size_t count() const { return count_; }
  std::uint64_t window() const { return window_; }
  Sent Send(std::uint64_t number, std::uint64_t bytes, Instant now);
  // It is answered: the line is measured, and the wait starts again.
  void Answered(const Sent& sent, Instant now);
  // It is lost, or nobody needs an answer any more. Nothing is measured.
  void Dropped(const Sent& sent);

  // An answer is awaited: the wait starts, unless it has. Send does this too.
  void Await(Instant now);
  // Whether an answer is overdue.
  bool Due(Instant now) const { return due_ && now >= *due_; }
  // A question was sent for it: the next wait is twice as long, up to the longest.
  void Asked(Instant now);
  // Something came that shows progress.
  void News(Instant now);
  // No answer is awaited.
  void Rest() { due_.reset(); }
  Instant wait() const;  // for an answer, before a question
  // How long answers take; 0 before one has been measured.
  Instant usual() const { return mean_.value_or(Instant{}); }

 private:
  void Start(Instant now);

  Waits waits_;
  RandomStream random_;
  std::size_t count_ = 0;
  std::uint64_t bytes_ = 0, window_ = kLeastWindow;
  bool full_once_ = false;  // the window was too large: it grows by a block for each window from here on
  Instant shortest_{};
  std::optional<Instant> mean_;  // of the time that answers take
  Instant deviation_{};
  unsigned questions_ = 0;  // since the last news
  std::optional<Instant> due_;
};

}  // namespace capstan
