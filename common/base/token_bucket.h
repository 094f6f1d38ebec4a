// TokenBucket: allows a number of events at once, and a rate in the long run.
//
// Kind:   a value; the caller passes the time, which does not fall.
#pragma once

#include <algorithm>
#include <chrono>

#include "common/base/types.h"

namespace capstan {

class TokenBucket {
 public:
  struct Rate {
    double per_second = 0.0, burst = 0.0;
  };

  TokenBucket(Rate rate, Instant now) : rate_(rate), tokens_(rate.burst), at_(now) {}

  // Takes a token. Returns false if there is none.
  bool Take(Instant now) {
    const double tokens = Tokens(now);
    if (tokens < 1.0) return false;
    tokens_ = tokens - 1.0;
    at_ = now;
    return true;
  }
  // Whether the bucket is as it was in the beginning.
  bool IsFull(Instant now) const { return Tokens(now) >= rate_.burst; }

 private:
  double Tokens(Instant now) const {
    return std::min(rate_.burst, tokens_ + rate_.per_second * std::chrono::duration<double>(now - at_).count());
  }

  Rate rate_;
  double tokens_;
  Instant at_;
};

}  // namespace capstan
