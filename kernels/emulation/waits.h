// CountWaits: what the program waits for on the emulated device is counted, and one of these waits may be left out.
//
// Kind: functions for tests, and for the runtime's stand-in; one thread of the host, which enqueues and waits.
// Why:  a test leaves out each wait in turn and looks whether that is noticed: one that nobody misses is superfluous,
//       or the test would not see it forgotten.
#pragma once

#include <cstdint>

namespace capstan::emulation {

enum class Waiting : std::uint8_t { kStreamForEvent, kHostForEvent, kHostForStream };

inline constexpr std::int64_t kNoWait = -1;

// From now on waits are counted from 0, and that of number `left_out` returns at once. So that a program has the same
// waits each time, cudaEventQuery finds nothing done until StopCounting.
void CountWaits(std::int64_t left_out = kNoWait);

struct Waits {
  std::int64_t count = 0;
  Waiting left_out = Waiting::kStreamForEvent;  // where one was
};
Waits StopCounting();

bool CountsWaits();
// Counts this one.
bool IsLeftOut(Waiting waiting);

}  // namespace capstan::emulation
