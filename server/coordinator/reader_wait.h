// ReaderWait: how long a finished job waits for readers of its last version. It waits one lease. Each reader that
// arrives meanwhile, that of a restarted worker for example, extends the wait to one lease from its arrival. The whole
// wait lasts at most kLeasesMax leases. A pause of this process of 2 s or more does not count: it reads no messages
// meanwhile.
//
// Kind: a value; part of Completion, which passes the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

#include "common/base/types.h"

namespace capstan::server {

class ReaderWait {
 public:
  static constexpr int kLeasesMax = 6;

  // `arrivals`: how many readers have ever come.
  ReaderWait(Instant lease, Instant now, std::uint64_t arrivals)
      : lease_(lease), begin_(now), newest_(now), last_look_(now), arrivals_(arrivals) {}

  // Whether to wait on. Remembers the arrivals. Called several times a second.
  bool GoesOn(Instant now, std::uint64_t arrivals) {
    if (const Instant pause = now - std::exchange(last_look_, now); pause >= kPauseLeast) {
      begin_ += pause;
      newest_ += pause;
    }
    if (arrivals_ != arrivals) newest_ = now;
    arrivals_ = arrivals;
    return now - newest_ < lease_ && now - begin_ < kLeasesMax * lease_;
  }

 private:
  static constexpr Instant kPauseLeast = std::chrono::seconds(2);

  Instant lease_;
  Instant begin_;
  Instant newest_;     // when the newest reader came, or the beginning
  Instant last_look_;  // the last GoesOn
  std::uint64_t arrivals_;
};

}  // namespace capstan::server
