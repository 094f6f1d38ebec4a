// ReplyLimit: how many answers per second strangers get to messages that are not accepted.
//
// Kind:   a value.
// Why:    an answer says to a process of ours what is wrong with it. To a flood, answers would double it.
#pragma once

#include <chrono>

namespace capstan {

class ReplyLimit {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr int kPerSecond = 20;

  // Whether one more answer is allowed.
  bool Take(TimePoint now) {
    if (now - second_ >= std::chrono::seconds(1)) {
      second_ = now;
      taken_ = 0;
    }
    return taken_++ < kPerSecond;
  }

 private:
  TimePoint second_{};
  int taken_ = 0;  // since second_
};

}  // namespace capstan
