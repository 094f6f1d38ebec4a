// JoinBudget: how many processes may join a job at once, and how many a second for long.
//
// Kind:   a value; part of a Membership.
// Why:    each new session moves slots, and every shard and worker hears of it. A process that joins again and again,
//         under one name or many, would leave a job no time for its steps.
#pragma once

#include <algorithm>
#include <chrono>

#include "common/base/types.h"
#include "common/wire/messages/limits.h"

namespace capstan::server {

class JoinBudget {
 public:
  static constexpr double kAtOnce = 2.0 * kWorkersMax;  // all workers of the largest job, and all of them again
  static constexpr double kPerSecond = 50;

  // Whether a process may join now. Times may not go back.
  bool Take(Instant now) {
    left_ = std::min(kAtOnce, left_ + std::chrono::duration<double>(now - last_).count() * kPerSecond);
    last_ = now;
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

 private:
  double left_ = kAtOnce;
  Instant last_{};
};

}  // namespace capstan::server
