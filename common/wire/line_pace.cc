#include "common/wire/line_pace.h"

#include <algorithm>

namespace capstan {

LinePace::Sent LinePace::Send(std::uint64_t number, std::uint64_t bytes, Instant now) {
  ++count_;
  bytes_ += bytes;
  Await(now);
  return {number, bytes, bytes_, now};
}

void LinePace::Dropped(const Sent& sent) {
  --count_;
  bytes_ -= sent.bytes;
}

// Estimates the mean answer time and its deviation as TCP does (RFC 6298), and adapts the window.
void LinePace::Answered(const Sent& sent, Instant now) {
  Dropped(sent);
  const Instant took = std::max(now - sent.at, Instant(1));
  if (!mean_) {
    mean_ = shortest_ = took;
    deviation_ = took / 2;
    return News(now);
  }
  const Instant error = took > *mean_ ? took - *mean_ : *mean_ - took;
  deviation_ += (error - deviation_) / 4;
  *mean_ += (took - *mean_) / 8;
  shortest_ = std::min(shortest_, took);
  const Instant allowed = shortest_ + kQueue;
  if (took <= allowed) {
    window_ += full_once_ ? sent.bytes * sent.bytes / window_ : sent.bytes;
  } else {  // shrinks it to what the line carries in the allowed time
    full_once_ = true;
    window_ = static_cast<std::uint64_t>(static_cast<double>(sent.in_flight) * static_cast<double>(allowed.count()) /
                                         static_cast<double>(took.count()));
  }
  window_ = std::clamp(window_, kLeastWindow, kMostWindow);
  News(now);
}

Instant LinePace::wait() const {
  if (!mean_) return waits_.first;
  return std::clamp(*mean_ + 4 * deviation_, std::min(kLeastWait, waits_.first), waits_.most);
}

void LinePace::Start(Instant now) {
  const Instant most = std::min((1 << std::min(questions_, 8U)) * wait(), waits_.most);
  due_ =
      now + most + Instant(static_cast<std::int64_t>(random_.Below(static_cast<std::uint64_t>(most.count() / 4) + 1)));
}

void LinePace::Await(Instant now) {
  if (due_) return;
  questions_ = 0;
  Start(now);
}

void LinePace::Asked(Instant now) {
  ++questions_;
  Start(now);
}

void LinePace::News(Instant now) {
  questions_ = 0;
  Start(now);
}

}  // namespace capstan
