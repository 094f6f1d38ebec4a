// WriterPace: how long a thread that writes a snapshot pauses, so that the threads that train are hardly slower.
//
// Kind:   owned by the writer's thread.
// Limits: pauses take at most four fifths of the time that a writer takes, and 30 s of it in all.
// Why:    on processors that are all busy, what a writer computes is missing to a step, in which all workers wait for
//         the slowest shard. So a writer spreads its work there. How long it has waited for a processor says how busy
//         they are: where one is free, it does not pause. Measured on two busy cores, with a state of 1 GiB: the
//         slowest step during a snapshot takes 1.16 to 1.26 times as long as other steps instead of 1.64 times, and the
//         snapshot 5 s instead of 1 s.
#pragma once

#include <algorithm>
#include <chrono>

namespace capstan::server {

class WriterPace {
 public:
  using Duration = std::chrono::nanoseconds;

  // The processors count as busy for a writer that has waited for one for a tenth of its time. It works then for a
  // fifth of the time.
  static constexpr int kWorkOfWait = 10, kPauseOfWork = 4;
  static constexpr Duration kPauseMax = std::chrono::milliseconds(200), kAllPausesMax = std::chrono::seconds(30);

  // Returns how long to pause after a piece of work. `took`: its time; `waited`: the part of it in which the thread
  // could have run and had no processor.
  Duration PauseAfter(Duration took, Duration waited) {
    worked_ += took;
    waited_ += waited;
    if (kWorkOfWait * waited_ <= worked_) return {};
    const Duration pause = std::min({kPauseOfWork * took, kPauseMax, kAllPausesMax - paused_});
    paused_ += pause;
    return pause;
  }

 private:
  Duration worked_{}, waited_{}, paused_{};
};

// Returns how long the calling thread has waited for a processor since it began; always 0 where Linux does not say it
// (/proc/thread-self/schedstat).
WriterPace::Duration TimeWithoutProcessor();

}  // namespace capstan::server
