// Backoff: when to repeat a request that has had no visible effect. The wait doubles each time, by default from 100 ms
// to 5 s. Up to a quarter of the wait is added as jitter.
//
// Kind:   value.
#pragma once

#include <algorithm>
#include <chrono>

#include "common/base/random.h"
#include "common/base/types.h"

namespace capstan {

class Backoff {
 public:
  static constexpr Instant kFirst = std::chrono::milliseconds(100);
  static constexpr Instant kLongest = std::chrono::seconds(5);

  // Requesters with different keys get different jitter. `first` is the wait after the first request.
  explicit Backoff(std::uint64_t key = 0, Instant first = kFirst)
      : random_(key, 0xBAC0FF), first_(first), wait_(first) {}

  bool Due(Instant now) const { return now >= next_; }
  Instant next() const { return next_; }
  // Call after each sending of the request: sets when the request is due again.
  void Sent(Instant now) {
    const auto jitter = static_cast<std::int64_t>(random_.Below(static_cast<std::uint64_t>(wait_.count() / 4) + 1));
    next_ = now + wait_ + Instant(jitter);
    wait_ = std::min(wait_ * 2, std::max(kLongest, first_));
  }
  // Call after progress: the next request is due at once, and the wait is `first` again.
  void Restart() {
    next_ = Instant::min();
    wait_ = first_;
  }

 private:
  RandomStream random_;
  Instant next_ = Instant::min();
  Instant first_ = kFirst;
  Instant wait_ = kFirst;
};

}  // namespace capstan
