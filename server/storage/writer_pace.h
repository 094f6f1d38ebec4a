// WriterPace: how long a thread that writes a snapshot pauses, so that the threads that train are hardly slower.
//
// Kind:   owned by the writer's thread.
// Limits: pauses take at most 10 s of a snapshot in all, because a last snapshot waits for the one that is written.
// Why:    if all processors are busy, the processor time of a writer is lost to training, and all workers of a step
//         wait for its slowest shard. So a writer spreads its work there. How long it has waited for a processor shows
//         how busy they are: where one is free, it does not pause. Measured on two busy cores, with a state of 1 GiB:
//         without pauses the slowest step during a snapshot takes 1.6 times as long as other steps, and with them 1.2
//         times; the snapshot takes 5 s instead of 1 s.
#pragma once

#include <algorithm>
#include <chrono>

namespace capstan::server {

// Times of a thread since it began: on a processor, and ready to run without one.
struct ProcessorTime {
  std::chrono::nanoseconds ran{}, waited{};
};

// Returns the calling thread's times; zeros where Linux does not report them (/proc/thread-self/schedstat).
ProcessorTime ReadProcessorTime();

class WriterPace {
 public:
  using Duration = std::chrono::nanoseconds;

  // The processors count as busy if the thread has lately waited for a fifth of the time that it needed one.
  static constexpr int kBusyPart = 5;
  // A pause is so many times as long as the time that the work before it needed a processor.
  static constexpr int kPauseOfWork = 6;
  static constexpr Duration kLately = std::chrono::milliseconds(200);
  static constexpr Duration kPauseMin = std::chrono::milliseconds(5), kPauseMax = std::chrono::milliseconds(50);
  static constexpr Duration kAllPausesMax = std::chrono::seconds(10);

  // `now`: the thread's times before it begins to write.
  explicit WriterPace(ProcessorTime now) : last_(now) {}

  // Returns how long to pause after a piece of work. Pauses shorter than kPauseMin are saved up.
  Duration PauseAt(ProcessorTime now) {
    const Duration waited = std::max(now.waited - last_.waited, Duration(0));
    const Duration needed = std::max(now.ran - last_.ran, Duration(0)) + waited;
    last_ = now;
    needed_ += needed;
    waited_ += waited;
    if (kBusyPart * waited_ > needed_) due_ += kPauseOfWork * needed;
    if (needed_ > kLately) {
      needed_ /= 2;
      waited_ /= 2;
    }
    if (due_ < kPauseMin) return Duration(0);
    const Duration pause = std::min({due_, kPauseMax, kAllPausesMax - paused_});
    due_ = Duration(0);
    paused_ += pause;
    return pause;
  }

 private:
  ProcessorTime last_;
  Duration needed_{}, waited_{};  // lately
  Duration due_{}, paused_{};
};

}  // namespace capstan::server
